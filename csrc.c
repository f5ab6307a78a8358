// The one C translation unit of the binding. cgo compiles only the C files
// beside the Go files, so it includes the shims from their own folder.
#define _GNU_SOURCE

#include "csrc/guard.c"
#include "csrc/arena.c"
#include "csrc/ops.c"
#include "csrc/compose.c"
#include "csrc/graph.c"
#include "csrc/backend.c"
#include "csrc/gguf_io.c"
#include "csrc/opt.c"
#include "csrc/blas.c"
#include "csrc/onednn.c"
#include "csrc/tiled.c"
#include "csrc/custom.c"
#include "csrc/callbacks.c"
#include "csrc/threads.c"
#include "csrc/compare.c"
#include "csrc/async.c"
#include "csrc/buffers.c"
#include "csrc/plugin.c"
#include "csrc/sources.c"
#include "csrc/meta.c"
