# Compiles requirements*.txt from requirements*.in: one solution for all four, no registry's address in it.
set -eu
solution=$(mktemp -d)
trap 'rm -rf "$solution"' EXIT
cat requirements.in requirements-local.in requirements-tuning.in requirements-dev.in >"$solution/everything.in"
compile="uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header --annotation-style=line"
$compile "$solution/everything.in" --no-annotate --output-file "$solution/everything.txt"
for name in requirements requirements-local requirements-tuning requirements-dev; do
    {
        echo "# Compiled from $name.in by \`make lock\`."
        $compile --constraint "$solution/everything.txt" "$name.in" | sed -e "s#, -c $solution/everything.txt##" -e "s#-c $solution/everything.txt##"
    } >"$solution/$name.txt"
    mv "$solution/$name.txt" "$name.txt"
done
