#!/usr/bin/env bash
# The image of a node, from this source: a static binary for the architecture of
# the Docker engine, in a context of its own. Needs Go and docker; pulls nothing.
# ONCED_IMAGE names the image (default onced:dev), VERSION what the binary says
# of itself (default: the Go tool's stamp).
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

image=${ONCED_IMAGE:-onced:dev}
arch=$(docker version --format '{{.Server.Arch}}')
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT

CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath \
	-ldflags "-s -w${VERSION:+ -X main.version=$VERSION}" -o "$context/onced" ./cmd/onced
mkdir -m 700 "$context/data"
docker build --quiet --tag "$image" --file scripts/compose/Dockerfile "$context" >/dev/null
echo "$image: $(docker image inspect --format '{{.Size}}' "$image") bytes"
