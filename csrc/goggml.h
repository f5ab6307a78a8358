// All declarations of C for the Go files of package ggml.
#ifndef GOGGML_H
#define GOGGML_H

#include <stdlib.h>

#include "guard.h"
#include "arena.h"
#include "ops.h"
#include "compose.h"
#include "rope.h"
#include "precision.h"
#include "types.h"
#include "graph_build.h"
#include "row_index.h"
#include "refusals.h"
#include "graph_check.h"
#include "graph_memory.h"
#include "tensor.h"
#include "layout.h"
#include "graph_backward.h"
#include "backend.h"
#include "release.h"
#include "graph_alloc.h"
#include "sched.h"
#include "sched_sources.h"
#include "sched_callbacks.h"
#include "tensor_data.h"
#include "gguf_io.h"
#include "opt.h"
#include "custom.h"
#include "native.h"
#include "cpu_plugin.h"
#include "compare.h"
#include "async.h"
#include "buffers.h"
#include "pages.h"
#include "plugin.h"
#include "repack.h"
#include "meta.h"

#endif
