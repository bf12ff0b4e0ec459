"""Tells which files usually hold secrets, by their names. Pure.

The person may name such a file; what a repository brings along may not name it for them.
"""

from __future__ import annotations

import re
from fnmatch import translate

SECRET_NAMES = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".dockercfg",
    ".vault-token",
    ".boto",
    ".s3cfg",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "*.tfvars",
    "*.tfstate",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "credentials",
    "credentials.*",
    "secrets.*",
    "service-account*.json",
)
"""Names of files, as patterns; compared without case."""
SECRET_FOLDERS = frozenset(
    (".git", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".docker", "gcloud", "keyrings")
)
"""Names of folders in which all may be secret."""
_IS_SECRET = re.compile("|".join(map(translate, SECRET_NAMES))).match
_EXAMPLES = (".example", ".sample", ".template", ".dist", ".pub")


def is_secret(path: str) -> bool:
    """Return whether a file of this path, however it is written, usually holds secrets."""
    *folders, name = path.casefold().split("/")
    if not SECRET_FOLDERS.isdisjoint(folders) or name in SECRET_FOLDERS:
        return True
    return _IS_SECRET(name) is not None and not name.endswith(_EXAMPLES)
