# Functions shared by the scripts of this folder; sourced after `root` is set to the repository's root.
# shellcheck shell=sh

me=$(basename -- "$0")

say() { printf '%s: %s\n' "$me" "$*"; }
warn() { printf '%s: warning: %s\n' "$me" "$*" >&2; }
die() {
	printf '%s: %s\n' "$me" "$1" >&2
	shift
	for line in "$@"; do printf '%s:   %s\n' "$me" "$line" >&2; done
	exit 1
}

# upstream NAME prints a value of ggml/UPSTREAM.
upstream() { sed -n "s/^$1: *//p" "$root/ggml/UPSTREAM"; }

# at_least A B succeeds if the dotted version A is at least B.
at_least() {
	awk -v a="$1" -v b="$2" 'BEGIN {
		split(a, x, "."); split(b, y, ".")
		for (i = 1; i <= 4; i++) if (x[i] + 0 != y[i] + 0) exit !(x[i] + 0 > y[i] + 0)
	}'
}

# glibc prints the host's glibc version, or nothing for another C library.
glibc() { getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc *//p'; }

# find_compiler sets $compiler to Go's C compiler, or to any other.
find_compiler() {
	compiler=${CC:-$(command -v gcc || command -v cc || true)}
	echo '#include <stdlib.h>' | ${compiler:-false} -x c -E - >/dev/null 2>&1 || die \
		"no working C compiler with the C library's headers was found" "install them: apt-get install gcc libc6-dev"
}

# lock FOLDER waits until no other script works on it. The kernel drops the lock when its owner dies, so no lock
# is ever stale.
lock() {
	mkdir -p "$1"
	exec 9>"$1/.lock"
	flock -n 9 && return
	say "waiting for another run to finish"
	flock 9
}

# workspace FOLDER sets $work to a scratch folder inside FOLDER (so that a rename can publish its contents). It
# is removed at exit, together with scratch folders of killed runs. Call it under the lock.
workspace() {
	rm -rf "$1"/.work.*
	work=$1/.work.$$
	trap 'rm -rf "$work"' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/debs" "$work/root"
}

# publish FOLDER NAME... moves $work/NAME to FOLDER/NAME, replacing what is there.
publish() {
	into=$1
	shift
	mkdir -p "$work/old"
	for name in "$@"; do
		if [ -e "$into/$name" ]; then mv "$into/$name" "$work/old/"; fi
		if [ -e "$work/$name" ]; then mv "$work/$name" "$into/"; fi
	done
}

# retry COMMAND... runs a command that uses the network up to three times, quietly.
retry() {
	pause=2
	for attempt in 1 2 3; do
		if "$@" >"$work/log" 2>&1 9>&-; then return 0; fi
		if [ "$attempt" = 3 ]; then break; fi
		say "a download failed; trying again in $pause s"
		sleep "$pause"
		pause=$((pause * 3))
	done
	sed -n 's/^E: /    /p' "$work/log" | tail -n 4 >&2
	return 1
}

# python_environment FOLDER creates a Python environment with pip.
python_environment() {
	python=$(command -v python3 || true)
	[ -n "$python" ] || die "there is no python3" "install it: apt-get install python3 python3-venv"
	"$python" -m venv "$1" >&2 || die "python3 cannot make an environment" "install it: apt-get install python3-venv"
}

# mirror prints the address of the archive from which the host installs packages. It asks for the lists that
# `update` would fetch, because these are complete even if no update was ever run.
mirror() {
	apt-get update --print-uris 2>/dev/null | sed -n "s|^'\(.*\)/dists/\([^/']*\)/InRelease'.*|\2 \1|p" |
		awk -v name="$VERSION_CODENAME" '
			$1 == name { print $2; found = 1; exit }
			$1 ~ /^(oldstable|stable|testing|unstable|sid)$/ && !other { other = $2 }
			END { if (!found && other) print other }'
}

# host_suites prints the suites that the host installs from on its own mirror.
host_suites() {
	apt-get update --print-uris 2>/dev/null | sed -n "s|^'$1/dists/\([^/']*\)/InRelease'.*|\1|p"
}

# apt_private SUITE... sets up a private apt in $work: its own sources, lists and cache, so that it needs no
# root and leaves the host's unchanged. Without suites it uses the host's. Of the host's settings it uses only
# those of the network (proxies and the like). With $nonfree set, it includes non-free packages.
apt_private() {
	apt_configure "$@" || exit
	APT_CONFIG=$work/apt.conf
	export APT_CONFIG
}

# apt_configure does the work of apt_private. It is a subshell, because its callers have variables of the same
# names.
apt_configure() (
	uri=$(mirror)
	[ -n "$uri" ] || die "cannot tell the package mirror of this system from apt's sources" \
		"check /etc/apt/sources.list and /etc/apt/sources.list.d, then run 'apt-get update'"
	components="main${nonfree:+ contrib non-free}"
	if [ "$ID" = ubuntu ]; then components="main universe${nonfree:+ restricted multiverse}"; fi
	options="target=Packages arch=$(dpkg --print-architecture)"
	for key in /usr/share/keyrings/"$ID"-archive-keyring.pgp /usr/share/keyrings/"$ID"-archive-keyring.gpg; do
		if [ -r "$key" ]; then options="$options signed-by=$key" && break; fi
	done
	if [ $# = 0 ]; then set -- $(host_suites "$uri"); fi
	for suite in "$@"; do
		echo "deb [$options] $uri $suite $components"
	done >"$work/sources.list"
	# By default backports rank below the release; we want the newest ggml, wherever it is.
	: >"$work/status" # empty: otherwise apt would prefer the host's installed packages
	printf 'Package: src:ggml src:llama.cpp\nPin: version *\nPin-Priority: 990\n' >"$work/preferences"
	{
		apt-config dump | grep '^Acquire::' | grep -v -e '^Acquire::IndexTargets' -e '^Acquire::Languages'
		cat <<-EOF
			Dir::Etc::Main "/dev/null";
			Dir::Etc::Parts "/dev/null";
			Dir::Etc::SourceList "$work/sources.list";
			Dir::Etc::SourceParts "/dev/null";
			Dir::Etc::Preferences "$work/preferences";
			Dir::Etc::PreferencesParts "/dev/null";
			Dir::State::Lists "$work/lists";
			Dir::State::Status "$work/status";
			Dir::Cache "$work";
			Acquire::Languages "none";
			APT::Update::Error-Mode "any";
			APT::Sandbox::User "root";
			Acquire::Retries "0";
			Acquire::http::Timeout "30";
			Acquire::https::Timeout "30";
		EOF
	} >"$work/apt.conf"
	APT_CONFIG=$work/apt.conf
	export APT_CONFIG
	retry apt-get -q update || die "the package lists of $uri ($(suites)) could not be fetched" \
		"check the network connection and apt's proxy settings ('apt-get update' must work), then run it again"
)

# apt_ggml [PLUGIN...] sets up apt_private with the suites that have the newest ggml, and its plugins for these
# kinds of GPU. Only in sid has Debian's CUDA plugin the same ggml.
apt_ggml() {
	. /etc/os-release
	VERSION_CODENAME=${VERSION_CODENAME:-}
	nonfree=
	case " $* " in *" cuda "*) nonfree=yes ;; esac
	set --
	if [ "$ID" = debian ] && [ "$nonfree" ]; then
		set -- sid
	elif [ "$ID" = debian ] && [ -n "${VERSION_ID:-}" ] && [ "${VERSION_ID%%.*}" -le 13 ]; then
		set -- trixie trixie-backports
	fi
	apt_private "$@"
}

# candidate PACKAGE prints the upstream version of a package: 1.0.0 of 1:1.0.0-1~bpo13+1, for example.
candidate() { apt-cache show --no-all-versions "$1" 2>/dev/null | sed -n 's/^Version: \([0-9]*:\)*\([0-9.]*\).*/\2/p'; }

# suites prints the suites that apt_private uses.
suites() { sed 's/^deb \[.*\] [^ ]* \([^ ]*\) .*/\1/' "$work/sources.list" | paste -sd ' ' -; }

# known PACKAGE succeeds if the lists have the package.
known() { apt-cache show --no-all-versions "$1" >/dev/null 2>&1; }

# fetch PACKAGE... downloads packages (apt checks their signatures) and unpacks them into $work/root.
fetch() {
	rm -f "$work/debs"/*.deb
	(cd "$work/debs" && retry apt-get -q download "$@") || die "could not fetch $*" \
		"check the network connection, then run it again"
	for deb in "$work/debs"/*.deb; do
		dpkg-deb -x "$deb" "$work/root" || die "could not unpack $(basename "$deb")" "is the disk full?"
	done
}

# depends PACKAGE prints the dependencies of a package's candidate.
depends() { apt-cache show --no-all-versions "$1" | sed -n 's/^Depends: //p'; }

# ggml_package prints the package of ggml's library, which has the version of its ABI in its name. Those of the plugins
# begin with it.
ggml_package() { depends libggml-dev | grep -o '^libggml[0-9]*'; }

# needs_glibc PACKAGE... prints the newest glibc that the candidates require.
needs_glibc() {
	for package in "$@"; do depends "$package"; done | tr ',' '\n' |
		sed -n 's/.*libc6 (>= \([0-9.]*\).*/\1/p' | sort -t. -k1,1n -k2,2n | tail -n 1
}

# other_tree REV FOLDER checks out a commit at FOLDER/tree until the script ends, with the ggml of this tree,
# and sets $rev to its full name.
other_tree() {
	rev=$(git -C "$root" rev-parse --verify --quiet "$1^{commit}") || die "$1 is no commit of this repository" "see git log"
	"$root/scripts/vendor" >/dev/null
	other=$2/tree
	mkdir -p "$2"
	[ -d "$other" ] && git -C "$root" worktree remove --force "$other"
	git -C "$root" worktree add --detach --quiet "$other" "$rev"
	trap 'git -C "$root" worktree remove --force "$other"' EXIT
	for part in include lib glibc; do
		if [ -e "$root/ggml/$part" ]; then ln -s "$root/ggml/$part" "$other/ggml/$part"; fi
	done
	if [ -e "$root/ggml/UPSTREAM.installed" ]; then cp "$root/ggml/UPSTREAM.installed" "$other/ggml/"; fi # go:embed accepts no link
}

# in_tree TREE changes into a tree, and sets what a build there needs.
in_tree() {
	cd "$1"
	GOWORK=off # not the go.work of the enclosing tree
	if [ -e "$1/go.work" ]; then GOWORK=$1/go.work; fi
	export GOWORK
	eval "$(scripts/env)"
}
