"""What systems share. Each part can be used by itself and imports nothing of a system.

| part | what it does |
| --- | --- |
| documents | reads files of many formats into pages of text, in an isolated process |
| texts | detects encodings, and delimiters of CSV |
| passages | splits documents into passages by their structure |
| sheets | reads CSV files of any size, in any encoding |
| objects | stores files in a folder or in S3 |
| fetching | fetches addresses that strangers chose, bounded, and never from inside your network |
| services | calls HTTP services within limits of the whole fleet, and caches what they answer |
| models | chat and embeddings of an OpenAI-compatible server |
| embeddings | vectors for texts, by local models or by a server |
| vectors | stores vectors and finds the nearest: in SQLite, PostgreSQL or Qdrant |
| names | compares names of people, organisations and other things |
| identifiers | checks IBAN, VAT numbers, LEI and others |
"""
