# Compiles requirements*.txt from requirements*.in: one solution for all four, with the SHA-256 of every file of
# each release, so that a lock holds on any platform and behind any mirror; no registry's address in it.
# What is locked stays as it is: `sh scripts/lock.sh --upgrade` looks for newer releases,
# `sh scripts/lock.sh --upgrade-package=NAME` for one.
set -eu
solution=$(mktemp -d)
trap 'rm -rf "$solution"' EXIT
cat requirements.in requirements-local.in requirements-tuning.in requirements-dev.in >"$solution/everything.in"
# uv prefers the versions that stand in the file it writes to.
grep -hE '^[A-Za-z0-9].*==' requirements.txt requirements-local.txt requirements-tuning.txt requirements-dev.txt |
    sed -e 's/ *\\$//' -e 's/ *#.*$//' | sort -u >"$solution/everything.txt"
compile="uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header"
$compile "$solution/everything.in" --no-annotate --output-file "$solution/everything.txt" "$@" >/dev/null
for name in requirements requirements-local requirements-tuning requirements-dev; do
    {
        echo "# Compiled from $name.in by \`make lock\`."
        $compile --generate-hashes --annotation-style=line --constraint "$solution/everything.txt" "$name.in" |
            sed -e "s#-c $solution/everything.txt, ##" -e "s#, -c $solution/everything.txt##"
    } >"$solution/$name.txt"
done
for name in requirements requirements-local requirements-tuning requirements-dev; do
    mv "$solution/$name.txt" "$name.txt"
done
