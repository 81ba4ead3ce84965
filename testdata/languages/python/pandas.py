# A table: read, group, join, resample, write, by way of SQL and JSON too.
import io
import sqlite3

import pandas as pd

t = pd.read_csv(io.StringIO("day,city,n\n2024-01-01,Oslo,3\n2024-01-01,Bergen,4\n2024-01-02,Oslo,5\n2024-02-01,Oslo,6\n"), parse_dates=["day"])
print(t.groupby("city")["n"].agg(["sum", "mean"]))
print(t.pivot_table(index="day", columns="city", values="n", aggfunc="sum", fill_value=0).to_string())
print(t.merge(pd.DataFrame({"city": ["Oslo", "Bergen"], "code": ["OSL", "BGO"]}), on="city")["code"].value_counts().to_dict())
print(t.set_index("day")["n"].resample("MS").sum().tolist(), t["day"].dt.day_name().unique().tolist())
t.to_csv("t.csv", index=False)
print(pd.read_csv("t.csv").shape, t.to_json(orient="records", date_format="iso")[:40])
db = sqlite3.connect("t.db")
t.to_sql("t", db, index=False)
print(pd.read_sql("select city, sum(n) as n from t group by city order by n desc", db).values.tolist())
print(t.describe().loc["max", "n"], t["n"].rolling(2).mean().tolist()[1:], t.isna().sum().sum())
