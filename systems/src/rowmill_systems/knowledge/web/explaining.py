"""Say in plain words what an error code of a document means, and what somebody can do about it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened, and what to do."""

    what: str
    to_do: str


AGAIN = "Process it again. If it fails in the same way, the log of the worker says more."
STORE_DOWN = "Check that the store runs, and that its address in the settings is right."
EXPLANATIONS = {
    "encrypted": Explanation("The file needs a password.", "Upload it without one."),
    "corrupt": Explanation(
        "The file is damaged, or of another kind than its name says.", "Open it, save it anew, and upload that."
    ),
    "unsupported": Explanation("Files of this kind can't be read.", "Save it as PDF, and upload that."),
    "empty": Explanation("There is nothing in the file.", "Upload it again, if there should be."),
    "too_large": Explanation("The file is, or unpacks to, more than is allowed.", "Split it, and upload the parts."),
    "no_text": Explanation(
        "The file was read, and there are no words in it.",
        "If it is a scan, check that OCR is on (KNOWLEDGE_OCR), and process it again.",
    ),
    "missing_object": Explanation(
        "Its bytes are gone from the object store.",
        "Upload the file again, and delete this document; or restore the object from a backup, and process it again.",
    ),
    "timeout": Explanation("Reading it, or a store, took too long.", AGAIN),
    "ocr": Explanation("The engine that reads scans failed.", AGAIN),
    "image_analysis": Explanation("An image in the file could not be read.", AGAIN),
    "document_analysis": Explanation("The file could not be read.", AGAIN),
    "unknown": Explanation("The process that read the file ended.", AGAIN),
    "vectors_unavailable": Explanation("The vector store can't be reached, or does not answer.", STORE_DOWN),
    "vectors_refused": Explanation(
        "The vector store refuses us.", "Check its key and its rights (KNOWLEDGE_VECTORS, KNOWLEDGE_VECTORS_KEY)."
    ),
    "collection_missing": Explanation(
        "The collection of the knowledge base is gone from the vector store.",
        "Check the stores on the page Consistency, and mend them.",
    ),
    "wrong_vector": Explanation("The model made a vector that is none.", "Check the model, and process it again."),
    "model_rejected": Explanation("The endpoint of the model refused the text.", "Check the model and its limits."),
    "model_answer": Explanation("The endpoint of the model answered with something else.", "Check the model's name."),
    "network": Explanation("The object store can't be reached.", STORE_DOWN),
    "storage": Explanation("The object store is full, not mounted, or lacks its bucket.", STORE_DOWN),
    "forbidden": Explanation("The object store refuses access.", "Check its key and its rights (KNOWLEDGE_STORAGE)."),
    "not_confirmed": Explanation(
        "A store does not have what it said it has written, or still has what it said it has deleted.",
        "The page Consistency shows what differs.",
    ),
    "wrong_settings": Explanation(
        "A store or the model can't be used as the settings have it.",
        "Correct what the error says, and start the workers again. It waits until then.",
    ),
    "wrong_model": Explanation(
        "The knowledge base has vectors of another model than the worker makes.",
        "It waits until all of its documents are embedded again, or until a worker with the old model takes it.",
    ),
}
OTHERWISE = Explanation("It could not be processed.", AGAIN)


def explain(code: str | None) -> Explanation:
    """Return what a code means. One that is not listed gets general words."""
    return EXPLANATIONS.get(code or "", OTHERWISE)
