// Package rpc sends to a server of rpc.Serve what no client would: messages of recorded sessions, changed, and the
// shapes of the holes that are known of ggml's own server. The server's buffers end at pages that cannot be read or
// written, so that what reaches beyond them ends it.
package rpc
