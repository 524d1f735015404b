-- The logs of one SQLite file.
CREATE TABLE IF NOT EXISTS logs (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY, timestamp REAL NOT NULL, key BLOB, headers BLOB, value BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS ends (
    log INTEGER, partition INTEGER, next INTEGER NOT NULL, timestamp REAL NOT NULL, PRIMARY KEY (log, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS commits (
    log INTEGER, "group" TEXT, partition INTEGER, low_watermark INTEGER NOT NULL, position INTEGER NOT NULL,
    note TEXT NOT NULL, PRIMARY KEY (log, "group", partition)
) WITHOUT ROWID;
