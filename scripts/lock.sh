# Compiles requirements.txt and requirements/*.txt from requirements/*.in: one solution for all four, with the SHA-256
# of every file of each release, so that a lock holds on any platform and behind any mirror; no registry's address in it.
# What is locked stays as it is: `sh scripts/lock.sh --upgrade` looks for newer releases,
# `sh scripts/lock.sh --upgrade-package=NAME` for one.
set -eu
solution=$(mktemp -d)
trap 'rm -rf "$solution"' EXIT
cat requirements/*.in >"$solution/everything.in"
# uv prefers the versions that stand in the file it writes to.
grep -hE '^[A-Za-z0-9].*==' requirements.txt requirements/*.txt |
    sed -e 's/ *\\$//' -e 's/ *#.*$//' | sort -u >"$solution/everything.txt"
compile="uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header"
$compile "$solution/everything.in" --no-annotate --output-file "$solution/everything.txt" "$@" >/dev/null
for name in base local tuning dev; do
    {
        echo "# Compiled from requirements/$name.in by \`make lock\`."
        $compile --generate-hashes --annotation-style=line --constraint "$solution/everything.txt" "requirements/$name.in" |
            sed -e "s#-c $solution/everything.txt, ##" -e "s#, -c $solution/everything.txt##"
    } >"$solution/$name.txt"
done
mv "$solution/base.txt" requirements.txt
for name in local tuning dev; do
    mv "$solution/$name.txt" "requirements/$name.txt"
done
