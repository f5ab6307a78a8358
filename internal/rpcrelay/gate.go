package rpcrelay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A Gate stands between clients and ggml's RPC server, which believes the
// length that a message claims, serves a client that says nothing as long as
// that likes, and cannot be stopped.
type Gate struct {
	Server   string // address of ggml's server
	MaxData  int64  // bytes of a tensor: more are not sent by any client in good faith
	Memory   int64  // bytes of each device that a client can have; 0 for all
	AnyPeers bool   // lets clients connect the server with other servers

	// Refused is called with the reason why a client was disconnected.
	Refused func(client net.Addr, err error)

	handshakeTimeout, stallTimeout time.Duration // for tests; 0 for the usual ones
}

// stallTimeout ends the wait for the rest of a message.
const stallTimeout = time.Minute

// Serve forwards one client after the other until the context ends, whose cause
// it returns then. It closes the listener.
func (g *Gate) Serve(ctx context.Context, l net.Listener) error {
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		client, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				client.Close()
			}
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		address := client.RemoteAddr()
		if err := g.serve(ctx, client); err != nil && ctx.Err() == nil {
			g.Refused(address, err)
		}
	}
}

// serve forwards one client until that closes the connection, which is no error.
func (g *Gate) serve(ctx context.Context, client net.Conn) error {
	defer client.Close()
	server, err := net.DialTimeout("tcp", g.Server, handshakeTimeout)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})()
	var limit *ledger
	if g.Memory > 0 {
		limit = newLedger(g.Memory)
	}
	var replies sync.WaitGroup
	replies.Add(1)
	go func() {
		defer replies.Done()
		if limit != nil {
			limit.copyReplies(client, server)
		} else {
			io.Copy(client, server)
		}
		client.Close() // the server has ended the connection
	}()
	err = g.forwardRequests(server, client, limit)
	server.Close()
	replies.Wait()
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (g *Gate) forwardRequests(server, client net.Conn, limit *ledger) error {
	stall, timeout := orDefault(g.stallTimeout, stallTimeout), orDefault(g.handshakeTimeout, handshakeTimeout)
	const most = 256 << 10 // bytes that are forwarded at a time
	var header [9]byte
	buffer := make([]byte, len(header)+most)
	for first := true; ; first = false {
		if first {
			client.SetReadDeadline(time.Now().Add(timeout))
		}
		if _, err := io.ReadFull(client, header[:]); err != nil {
			return err
		}
		cmd, size := command(header[0]), binary.LittleEndian.Uint64(header[1:])
		if first != (cmd == hello) {
			return errors.New("it does not begin with a handshake")
		}
		if err := cmd.checkSize(size, g.MaxData); err != nil {
			return err
		}
		for left, begin := int64(size), len(header); begin > 0 || left > 0; begin = 0 {
			copy(buffer, header[:begin])
			body := buffer[begin:][:min(left, most)]
			client.SetReadDeadline(time.Now().Add(stall))
			if _, err := io.ReadFull(client, body); err != nil {
				return fmt.Errorf("a message ends early: %w", err)
			}
			if cmd == commInit && !g.AnyPeers {
				clear(body) // of no servers, which ggml's server refuses
			}
			if begin > 0 && limit.note(cmd, body) {
				if _, err := client.Write(refusal()); err != nil {
					return err
				}
				break
			}
			if _, err := server.Write(buffer[:begin+len(body)]); err != nil {
				return err
			}
			left -= int64(len(body))
		}
		client.SetReadDeadline(time.Time{})
	}
}

func orDefault(d, usual time.Duration) time.Duration {
	if d == 0 {
		return usual
	}
	return d
}
