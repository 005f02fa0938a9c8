#!/bin/sh
# Input { folder }: removes what split.sh made. Runs whether the counting succeeded or not.
set -eu
folder=$(node -p "JSON.parse(require('fs').readFileSync(0, 'utf8')).folder")
case "$folder" in
  */word-count-??????) rm -r "$folder" ;;
  *) echo "$folder was not made by split.sh" >&2; exit 1 ;;
esac
