"""The demo of knowledge bases: documents under killed workers and damaged stores."""
