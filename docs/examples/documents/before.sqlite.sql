CREATE TABLE "Documents" (
    "documentId" INTEGER PRIMARY KEY AUTOINCREMENT,
    "fileName" TEXT NOT NULL,
    "pageCount" INTEGER,
    "processingStatus" VARCHAR(12) NOT NULL DEFAULT 'QUEUED',
    "processingError" TEXT,
    "processingStartedAt" TIMESTAMP,
    "processedAt" TIMESTAMP,
    "createdAt" TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX "Documents_queue" ON "Documents" ("createdAt") WHERE "processingStatus" = 'QUEUED';
