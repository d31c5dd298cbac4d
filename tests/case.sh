#!/bin/sh
# Runs a case of a GoogleTest program, unless it has already passed and nothing that it depends on has changed.
#
#   case.sh FOLDER PROGRAM [OPTION...]
#
# FOLDER/state contains a hash of these dependencies, written by tests/unchanged.py after the program was built;
# FOLDER/CASE contains the hash with which the case has passed. This is a shell script because there are a thousand
# cases. The output of a case that does not end is in FOLDER/CASE.out.
folder=$1
shift
case $2 in
--gtest_filter=*) ;;
*) exec "$@" ;; # the list of the cases
esac
name=${2#--gtest_filter=}
while :; do
  case $name in
  */*) name=${name%%/*}:${name#*/} ;;
  *) break ;;
  esac
done

state=
# shellcheck disable=SC3013  # dash and bash have -nt
if [ "$folder/state" -nt "$1" ]; then
  read -r state <"$folder/state"
  if [ -z "$FA_TEST_AGAIN" ] && [ -f "$folder/$name" ]; then
    read -r passed <"$folder/$name"
    if [ "$passed" = "$state" ]; then
      echo "unchanged since it passed"
      exit 0
    fi
  fi
fi
rm -f "$folder/$name"
"$@" >"$folder/$name.out" 2>&1
status=$?
cat "$folder/$name.out"
if [ $status -eq 0 ] && [ -n "$state" ] && ! grep -q '^\[  SKIPPED \]' "$folder/$name.out"; then
  echo "$state" >"$folder/$name"
fi
rm -f "$folder/$name.out"
exit $status
