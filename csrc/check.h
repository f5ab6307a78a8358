// Includes ggml's headers after checking that they are present and not too old. All other files
// include this file instead: cgo preprocesses before it compiles, so a failed check is the only
// message of a build.
#ifndef GOGGML_CHECK_H
#define GOGGML_CHECK_H

#if !defined(__has_include)
#error "goggml needs gcc 5 or clang 3 or newer"
#elif !__has_include(<ggml.h>) || !__has_include(<ggml-rpc.h>)
#if __has_include("../scripts/vendor") // absent in the module cache and in a vendor folder
#error "ggml is missing: run scripts/vendor in this clone of goggml (to build in another module, then set what scripts/env --consumer prints), or install ggml 1.0.0 or newer with its headers (Debian, Ubuntu: libggml-dev; Alpine: ggml-dev; Arch, Homebrew: ggml)"
#else
#error "ggml is missing: run git clone https://github.com/goggml/ggml goggml && goggml/scripts/vendor && eval \"$(goggml/scripts/env --consumer)\" in this shell, or install ggml 1.0.0 or newer with its headers (Debian, Ubuntu: libggml-dev; Alpine: ggml-dev; Arch, Homebrew: ggml)"
#endif
#elif __has_include("../ggml/glibc/libc.so.6") && !defined(GOGGML_ENV)
// Without this check, the build would succeed, and the loader would refuse the program.
#error "the system's C library is too old for ggml, and the newer one in ggml/ is not in use: build with make, or first run in this shell: eval \"$(scripts/env)\""
#else

#include <ggml-rpc.h>

// The headers have no version number, but they have the version of the RPC protocol, which rises as
// operations are added. ggml 1.0.0, the minimum in ggml/UPSTREAM, has 10.
#if !defined(RPC_PROTO_MAJOR_VERSION) || RPC_PROTO_MAJOR_VERSION < 10
#if __has_include("../scripts/vendor")
#error "ggml is older than 1.0.0: run scripts/vendor in this clone of goggml, or install a newer ggml with its headers (on Debian 13: libggml-dev from trixie-backports)"
#else
#error "ggml is older than 1.0.0: run git clone https://github.com/goggml/ggml goggml && goggml/scripts/vendor && eval \"$(goggml/scripts/env --consumer)\" in this shell, or install a newer ggml with its headers (on Debian 13: libggml-dev from trixie-backports)"
#endif
#else

#include <ggml.h>
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml-opt.h>
#include <gguf.h>

#endif
#endif

#endif
