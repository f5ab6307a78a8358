// Package rpc sends invalid messages to a server of rpc.Serve: modified messages of recorded sessions, and the
// known holes of ggml's own server. The server's buffers end at inaccessible pages, so an access beyond a
// buffer ends the process.
package rpc
