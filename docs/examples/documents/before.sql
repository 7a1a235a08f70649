CREATE TABLE "Documents" (
    "documentId" serial PRIMARY KEY,
    "fileName" text NOT NULL,
    "pageCount" integer,
    "processingStatus" varchar(12) NOT NULL DEFAULT 'QUEUED',
    "processingError" text,
    "processingStartedAt" timestamp,
    "processedAt" timestamp,
    "createdAt" timestamp NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')
);

CREATE INDEX "Documents_queue" ON "Documents" ("createdAt") WHERE "processingStatus" = 'QUEUED';
