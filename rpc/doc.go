// Package rpc serves devices of this machine to programs on other machines, which use them like
// their own. It uses only the exported API of package ggml, and no C. The client is ggml's own, in
// package ggml: [ggml.AddRPCServer].
//
// # Safety
//
// The server rebuilds each op of a client by the method of [ggml.Context] that builds such an op,
// and computes it only if type, shape, strides, parameters and operands match the client's
// description. So the binding's checks of ops are the server's checks; a wrongly decoded op is
// refused, and an op without a decoder is not available. Furthermore:
//
//   - A client addresses its buffers by numbers and addresses that the server makes up. A tensor lies within a buffer of its
//     client, a view within its source.
//   - Operands precede their readers, so a graph ends; its nodes are numbered, so its size is bounded.
//   - A result may overlap an operand only where ggml's allocator allows it: otherwise ops that sort or look up rows would
//     change the data that determines where they write.
//   - Row numbers are values, and are read before use. A graph is computed in stages: a new stage begins before a look-up
//     whose row numbers an op of the current stage may have written, unless that op (argsort, top_k, argmax) stays below
//     the number of rows.
//   - Memory is charged to a pool before it is allocated: data to the pool of its device, the rest to
//     the pool of the host. Dropped objects are collected at 8 MiB. A graph has one context for all stages; freeing a
//     buffer drops the graphs in it; building ends if the client disconnects.
//
// A goroutine serves each client, with buffers, graphs and backends of its own. internal/fuzz/rpc
// sends mutated messages.
package rpc
