"""Lists the package registries that the network ``registries`` allows, as patterns of host names.

A host is here if package managers cannot install without it and it serves packages alone. Those where anybody
can put or take anything are not, even where packages fetch from them: ``github.com`` and its release files,
``storage.googleapis.com``, object stores. Who needs them names them in ``hosts``.
"""

from __future__ import annotations

from itertools import chain

BY_ECOSYSTEM = {
    "Python": ("pypi.org", "*.pythonhosted.org"),
    "JavaScript": ("*.npmjs.org", "registry.yarnpkg.com", "repo.yarnpkg.com", "nodejs.org"),
    "Rust": ("crates.io", "index.crates.io", "static.crates.io", "static.rust-lang.org"),
    "Go": ("proxy.golang.org", "sum.golang.org"),
    "Java": (
        *("repo.maven.apache.org", "repo1.maven.org", "maven.google.com", "dl.google.com"),
        *(
            "plugins.gradle.org",
            "plugins-artifacts.gradle.org",
            "services.gradle.org",
            "downloads.gradle.org",
        ),
    ),
    "Ruby": ("rubygems.org", "index.rubygems.org"),
    "PHP": ("packagist.org", "repo.packagist.org"),
    "Conda": ("conda.anaconda.org", "repo.anaconda.com"),
    "Debian and Ubuntu": (
        *("deb.debian.org", "security.debian.org"),
        *("archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com"),
    ),
}

REGISTRY_HOSTS = tuple(chain.from_iterable(BY_ECOSYSTEM.values()))
