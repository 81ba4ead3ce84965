# A database in a file, in every mode of its journal, from several connections,
# threads and processes, and one in memory.
import os
import sqlite3
import subprocess
import sys
import threading

for mode in ("delete", "wal", "truncate", "memory"):
    db = sqlite3.connect(f"{mode}.db", timeout=10)
    print(mode, db.execute(f"pragma journal_mode={mode}").fetchone()[0])
    with db:
        db.execute("create table t (id integer primary key, name text unique, n real)")
        db.executemany("insert into t (name, n) values (?, ?)", [(f"name {i}", i / 3) for i in range(1000)])
    other = sqlite3.connect(f"{mode}.db", timeout=10)
    print(other.execute("select count(*), round(sum(n), 2), max(name) from t").fetchone())
    try:
        with db:
            db.execute("delete from t")
            db.execute("insert into t (name) values ('a'), ('a')")
    except sqlite3.IntegrityError as e:
        print(e)
    print(other.execute("select count(*) from t").fetchone())
    db.close()
    other.close()

db = sqlite3.connect("wal.db", timeout=10)
print("wal", db.execute("pragma journal_mode").fetchone()[0], os.path.exists("wal.db-shm"))


def insert(k):
    c = sqlite3.connect("wal.db", timeout=10)
    for i in range(20):
        with c:
            c.execute("insert into t (name) values (?)", (f"{k}.{i}",))
    c.close()


threads = [threading.Thread(target=insert, args=(k,)) for k in range(4)]
child = subprocess.Popen([sys.executable, "-c", "import sqlite3; c = sqlite3.connect('wal.db', timeout=10); c.execute('insert into t (name) values (?)', ('child',)); c.commit()"])
for t in threads:
    t.start()
for t in threads:
    t.join()
print("child", child.wait())
print(db.execute("select count(*) from t").fetchone(), db.execute("pragma integrity_check").fetchone())
db.execute("vacuum")
mem = sqlite3.connect(":memory:")
db.backup(mem)
print("backup", mem.execute("select count(*) from t").fetchone())
mem.create_function("double", 1, lambda x: 2 * x)
print(mem.execute("select double(21)").fetchone())
mem.execute("create virtual table f using fts5(body)")
mem.execute("insert into f values ('a glove in a box'), ('nothing')")
print("fts", mem.execute("select body from f where f match 'glove'").fetchall())
