package ggml_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/goggml/ggml"
)

// A program offers its CPU until it is interrupted. Another one computes there.
func ExampleServeRPC() {
	const endpoint = "127.0.0.1:50052"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() {
		err := ggml.ServeRPC(ctx, endpoint, ggml.RPCServerOptions{Threads: 4})
		if ctx.Err() == nil {
			log.Fatal(err)
		}
	}()

	remote, err := ggml.AddRPCServer(endpoint) // in practice elsewhere, and again until it is up
	check(err)
	for _, d := range remote.Devices() {
		fmt.Println(d.Name(), d.Properties().MemoryFree)
	}
}
