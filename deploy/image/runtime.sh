#!/bin/sh
# usage: runtime.sh INTO PLACE…
# Copies into INTO what the programs under each PLACE need of this Debian, and no more: Python, the shared libraries that
# it and they load, the certificates of authorities, and which packages these are of, so that scanners can read it.
set -eu
into=$1
shift

python=$(readlink -f "$(command -v python3)")
library=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
certificates=/etc/ssl/certs/ca-certificates.crt
[ -s "$certificates" ] || { echo "runtime.sh: $certificates is missing; the base image needs the package ca-certificates" >&2; exit 1; }

mkdir -p "$into/etc" "$into/tmp" "$into/data" "$into/var/lib/dpkg"
chmod 1777 "$into/tmp"
for link in /bin /lib /lib64; do
  if [ -L "$link" ]; then
    mkdir -p "$into$(readlink -f "$link")"
    cp -P "$link" "$into$link"
  fi
done

# Python, without what only people at a keyboard and builds use.
cp -P --parents "${python%/*}/python3" "$python" "$into"
mkdir -p "$into${library%/*}"
cp -a "$library" "$into${library%/*}/"
(cd "$into$library" && rm -rf site-packages test idlelib tkinter turtledemo turtle.py ensurepip lib2to3 pydoc_data \
  sitecustomize.py config-* lib-dynload/_tkinter*)
find "$into$library" -name __pycache__ -prune -exec rm -rf {} +
"$python" -m compileall -q --invalidation-mode unchecked-hash -s "$into" "$into$library"

# Shared libraries, by the names under which they are looked for; wheels bring some of their own.
libraries=$({ echo "$python"; find "$into$library" "$@" -type f -name '*.so*'; } | xargs ldd 2>/dev/null \
  | awk '$2 == "=>" && $3 ~ "^/" {print $3} $1 ~ "^/.*/ld-" {print $1}' | sort -u)
for name in $libraries; do
  case $name in /opt/* | "$into"/*) continue ;; esac
  folder=$into$(readlink -f "$(dirname "$name")")
  mkdir -p "$folder"
  cp -L "$name" "$folder/"
  # dpkg knows a file by the path that its package has it under, with /usr or without.
  file=$(readlink -f "$name")
  { dpkg -S "$file" || dpkg -S "${file#/usr}" || true; } 2>/dev/null
done | sed 's/:.*//' | sort -u >/tmp/packages
echo base-files >>/tmp/packages
echo ca-certificates >>/tmp/packages
dpkg -S "$python" 2>/dev/null | sed 's/:.*//' >>/tmp/packages || true
xargs dpkg-query --status </tmp/packages >"$into/var/lib/dpkg/status"
while read -r package; do cp --parents "/usr/share/doc/$package/copyright" "$into"; done </tmp/packages

cp --parents "$certificates" /etc/ld.so.cache "$into"
cp -L --parents /etc/os-release /etc/debian_version "$into"
echo 'hosts: files dns' >"$into/etc/nsswitch.conf"
printf '%s\n' 'root:x:0:0:root:/:/nonexistent' 'evalstream:x:10001:10001::/data:/nonexistent' >"$into/etc/passwd"
printf '%s\n' 'root:x:0:' 'evalstream:x:10001:' >"$into/etc/group"
chown 10001:10001 "$into/data"
