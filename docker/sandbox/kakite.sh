#!/bin/sh
# Kakite in an environment of its own, from wheels alone: no index is asked.
set -eu
/usr/bin/python3 -m venv --without-pip --clear /opt/kakite
pip=$(echo /wheels/pip-*.whl)/pip
/opt/kakite/bin/python "$pip" install --quiet --no-index --no-cache-dir \
  --disable-pip-version-check --root-user-action=ignore --find-links /wheels kakite
ln -s lib/python3.11/site-packages/kakite /opt/kakite/package
/opt/kakite/bin/kakite --version
