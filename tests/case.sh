#!/bin/sh
# A case of a GoogleTest program, unless it has passed before with what it follows from now.
#
#   case.sh FOLDER PROGRAM [OPTION...]
#
# FOLDER/state holds a hash of that, which tests/unchanged.py has written, later than the program itself; FOLDER/CASE holds
# the hash with which the case has passed. In shell, since there
# are a thousand cases. What one that does not end has printed is in FOLDER/CASE.out.
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
