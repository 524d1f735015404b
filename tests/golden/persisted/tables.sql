CREATE TABLE logs (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE records (
    id INTEGER PRIMARY KEY, timestamp REAL NOT NULL, key BLOB, headers BLOB, value BLOB NOT NULL
);
CREATE TABLE ends (
    log INTEGER, partition INTEGER, next INTEGER NOT NULL, timestamp REAL NOT NULL, PRIMARY KEY (log, partition)
) WITHOUT ROWID;
CREATE TABLE commits (
    log INTEGER, "group" TEXT, partition INTEGER, low_watermark INTEGER NOT NULL, position INTEGER NOT NULL,
    note TEXT NOT NULL, PRIMARY KEY (log, "group", partition)
) WITHOUT ROWID;
