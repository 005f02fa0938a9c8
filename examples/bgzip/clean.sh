#!/bin/sh
# Input { folder }: removes what make.sh made.
set -eu
folder=$(node -p "JSON.parse(require('fs').readFileSync(0, 'utf8')).folder")
case "$folder" in
  */bgzip-??????) rm -r "$folder" ;;
  *) echo "$folder was not made by make.sh" >&2; exit 1 ;;
esac
