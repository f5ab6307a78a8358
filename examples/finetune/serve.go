package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/examples/internal/listen"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/serve"
)

// serveCommand serves a model to clients of OpenAI's protocol.
type serveCommand struct {
	inference.SessionFlags
	Listen     string        `name:"listen" basic:"" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the server; by default port 8080, on this machine alone. An address that other machines reach requires a key: without --api-key-file one is made and printed." group:"Serving"`
	APIKeyFile string        `name:"api-key-file" basic:"" placeholder:"FILE" help:"File with the key that clients send as Authorization: Bearer KEY." group:"Serving"`
	Alias      string        `name:"alias" basic:"" short:"a" placeholder:"NAME" help:"Name of the model for clients; by default the name of the run's folder, or of the model's file." group:"Serving"`
	Runs       string        `name:"runs" basic:"" placeholder:"DIR" help:"Folder of runs: each on the same model is a model by the name of its folder, with its best adapter; also runs that appear while the server runs." group:"Serving"`
	Parallel   int           `name:"parallel" basic:"" range:"[1,1024]" default:"4" help:"Most texts to generate at once; each has a KV cache of its own, and further requests wait." group:"Serving"`
	Queue      int           `name:"queue" range:"[1,1048576]" default:"1024" help:"Most requests that wait; further ones are refused." group:"Serving"`
	MaxTime    time.Duration `name:"max-time" range:"[0,)" placeholder:"TIME" default:"0s" help:"Longest time of a request, its time in the queue included; by default, or with 0, there is no limit." group:"Serving"`
	Grace      time.Duration `name:"grace" range:"[0,)" placeholder:"TIME" default:"30s" help:"How long requests may go on after a signal that ends the server; by default half a minute." group:"Serving"`

	ChatTemplate string   `name:"chat-template" basic:"" run:"" placeholder:"FILE" help:"Chat template (Jinja), by default the one in the model's file." group:"Chat"`
	TemplateVar  []string `name:"template-var" run:"" sep:"none" placeholder:"KEY=VALUE" help:"Variable of the chat template, in JSON or else as text, such as enable_thinking=false. Can be given several times." group:"Chat"`
	inference.Drawing
}

// maxConnections bounds the files and memory of clients. Beyond it, new connections take the place of idle ones.
const maxConnections = 1024

// Help is the text that kong adds to the help of the command.
func (c *serveCommand) Help() string {
	return `The endpoints are OpenAI's, under /v1: chat/completions, completions, embeddings, models; and llama-server's /completion, /tokenize, /detokenize, /apply-template, /health, /props, /slots and /metrics. A page at / talks with the models in a browser. Flags of sampling are for fields that a request lacks. docs/serve.md has clients and all fields.`
}

// Run serves until a signal, and then lets running requests end.
func (c *serveCommand) Run(ctx context.Context, out io.Writer) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	chat, err := c.chat()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen) // before the model is read
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer l.Close()
	m, err := c.Load(c.Parallel)
	if err != nil {
		return err
	}
	defer m.Close()
	session := m.Options
	session.Sequences = c.Parallel
	served, err := llm.New(m.Model, llm.Options{Session: session, Chat: chat, Scheduler: generate.SchedulerOptions{Queue: c.Queue}})
	if err != nil {
		return err
	}
	defer served.Close()
	if key == "" && !listen.IsLoopback(l.Addr()) {
		key = rand.Text()
		fmt.Fprintf(os.Stderr, "key: %s (other machines reach this address; --api-key-file sets a key of your own)\n", key)
	}
	sampling := c.Options()
	h, err := serve.New(served, serve.Options{Name: c.name(), Key: key, Chat: generate.ChatOptions{Variables: chat.Variables}, Sampling: &sampling, MaxTime: c.MaxTime})
	if err != nil {
		return err
	}
	if c.Runs != "" {
		watched := &servedRuns{folder: c.Runs, served: served, h: h, log: os.Stderr, open: map[string]servedRun{}, faults: map[string]string{}}
		if watched.model, err = os.Stat(c.Model); err != nil {
			return err
		}
		watched.refresh(ctx)
		ctx, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			watched.watch(ctx)
		}()
		defer func() { stop(); <-done }()
	}
	if _, err := fmt.Fprintf(out, "serving %s at http://%s/v1\n", c.name(), l.Addr()); err != nil {
		return err
	}
	return c.serve(ctx, listen.Limit(l, maxConnections), guard(h, key))
}

// serve answers until the context ends, and then for the time of grace.
func (c *serveCommand) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	listen.MakeRoom(s)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		soon, cancel := context.WithTimeout(context.Background(), c.Grace)
		defer cancel()
		if s.Shutdown(soon) != nil {
			s.Close()
		}
	})
	err := s.Serve(l)
	if stop() {
		return err
	}
	<-ended
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// guard refuses, without a key, host names that another site may have pointed at this machine.
func guard(h http.Handler, key string) http.Handler {
	if key != "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !listen.IsOwnName(r.Host) {
			http.Error(w, "without a key, this server answers only under an IP address or as localhost", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// key returns the key of the file, or "".
func (c *serveCommand) key() (string, error) {
	if c.APIKeyFile == "" {
		return "", nil
	}
	text, err := cli.ReadText(c.APIKeyFile)
	if err != nil {
		return "", fmt.Errorf("--api-key-file: %w", err)
	}
	key := strings.TrimSpace(text)
	if key == "" || strings.ContainsAny(key, " \n\r\t") {
		return "", fmt.Errorf("--api-key-file %s: it must have one line with a key", c.APIKeyFile)
	}
	return key, nil
}

func (c *serveCommand) chat() (o generate.ChatOptions, err error) {
	if o.Variables, err = cli.Variables("--template-var", c.TemplateVar); err != nil || c.ChatTemplate == "" {
		return o, err
	}
	o.Template, err = cli.ReadTemplate("--chat-template", c.ChatTemplate)
	return o, err
}

// name returns the name of the model for clients.
func (c *serveCommand) name() string {
	of := strings.TrimSuffix(filepath.Base(c.Model), filepath.Ext(c.Model))
	if run := c.Opened(); run != nil {
		of = filepath.Base(filepath.Clean(run.Path))
	}
	return cmp.Or(c.Alias, of)
}
