package rpc_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/rpc"
)

// A program offers its CPU until it is interrupted. Another program computes there.
func ExampleServe() {
	const endpoint = "127.0.0.1:50052"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() {
		err := rpc.Serve(ctx, endpoint, rpc.Options{Threads: 4})
		if ctx.Err() == nil {
			log.Fatal(err)
		}
	}()

	remote, err := ggml.AddRPCServer(endpoint) // usually in another process, which retries until the server is up
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range remote.Devices() {
		fmt.Println(d.Name(), d.Properties().MemoryFree)
	}
}
