#!/bin/sh
# Installs the gate where only your own registry is reached. The other files of the release lie beside this one.
#
#   ./install-offline.sh REGISTRY [ARGUMENT OF HELM…]
#
# REGISTRY is for example registry.example.com/team. ENGINE (docker, podman or nerdctl) loads the image and pushes it there.
set -eu
if [ $# -eq 0 ]; then
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 64
fi
registry=$1
shift
cd "$(dirname "$0")"
for engine in ${ENGINE:-docker podman nerdctl}; do
    "$engine" version > /dev/null 2>&1 && break # docker may be there without its daemon
    engine=""
done
if [ -z "$engine" ]; then
    echo "install-offline: neither docker nor podman nor nerdctl answers: install or start one, or name yours in ENGINE" >&2
    exit 69
fi

sha256sum --check --ignore-missing --quiet SHA256SUMS
chart=$(echo extauthz-*.tgz)
version=${chart#extauthz-}
version=${version%.tgz}
for archive in extauthz-"$version"-*.image.tar.gz; do
    gzip -dc "$archive" | "$engine" load # Debian 12's podman takes no compressed file
done
while read -r image; do
    "$engine" tag "$image" "$registry/${image##*/}"
    "$engine" push "$registry/${image##*/}"
done < images.txt
values=$(tar -xzOf "$chart" extauthz/values-webhook.yaml)
echo "$values" | helm upgrade --install extauthz "$chart" --namespace extauthz-system --create-namespace \
    --values - --set "image.repository=$registry/extauthz" "$@"
