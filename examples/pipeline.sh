#!/bin/bash
# Pipes, a here-document and several processes: the usual tools work in a cell.
sort <<'LIST' | uniq -c | sort -rn | head -n 1 | awk '{print $2, "came", $1, "times"}'
glove
box
glove
LIST
