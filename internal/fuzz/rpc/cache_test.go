package rpc

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/need"
)

// File names in the cache.
const (
	cacheHash = 0x0123456789abcdef
	cacheName = "0123456789abcdef"
)

// load requests the data of a hash into a tensor.
func (c *client) load(t rpcwire.Tensor, hash uint64) (found bool) {
	c.t.Helper()
	body := binary.LittleEndian.AppendUint64(t.Append(nil), 0)
	c.send(rpcwire.SetTensorHash, binary.LittleEndian.AppendUint64(body, hash))
	return c.reply()[0] == 1
}

// startCached starts a server with a cache of a size in bytes, in a new folder.
func startCached(t *testing.T, size int64) (s *server, folder string) {
	o := usual
	o.CacheDir, o.CacheSize = filepath.Join(t.TempDir(), "rpc", "cache"), size
	s = start(t, o)
	require.DirExists(t, o.CacheDir)
	return s, o.CacheDir
}

// Foreign files in the cache never become a client's data: the server does not wait for a pipe, follow a link,
// or return data of another hash.
func TestForeignFilesInCache(t *testing.T) {
	s, folder := startCached(t, 0)
	path := filepath.Join(folder, cacheName)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("not the client's"), 0o600))
	for name, put := range map[string]func() error{
		"a pipe":           func() error { return unix.Mkfifo(path, 0o600) },
		"a folder":         func() error { return os.Mkdir(path, 0o700) },
		"a link":           func() error { return os.Symlink(secret, path) },
		"a link to zeros":  func() error { return os.Symlink("/dev/zero", path) },
		"another hash":     func() error { return os.WriteFile(path, []byte("not the client's"), 0o600) },
		"more than wanted": func() error { return os.WriteFile(path, make([]byte, 100), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, put())
			defer os.Remove(path)
			c := s.dial(t)
			x := c.alloc(64).tensor(1, ggml.F32, 0, 16)
			c.SetDeadline(time.Now().Add(time.Minute))
			require.False(t, c.load(x, cacheHash))
			require.Equal(t, make([]byte, 64), c.get(x, 64))
		})
	}
	s.says(t, "a damaged file is removed from the cache: "+path)
}

// Clients that start concurrently do not fill the cache beyond its size.
func TestCacheSize(t *testing.T) {
	const n, size = 11 << 20, 25 << 20
	s, folder := startCached(t, size)
	used := func() (sum int64) {
		files := need.Value(os.ReadDir(folder))(t)
		for _, f := range files {
			if info, err := f.Info(); err == nil {
				sum += info.Size()
			}
		}
		return sum
	}
	message := func(c *client, first byte) []byte {
		x := c.alloc(n).tensor(1, ggml.F32, 0, n/4)
		body := append(binary.LittleEndian.AppendUint64(append(x.Append(nil), 0), 0), make([]byte, n)...)
		body[rpcwire.SetTensorSize] = first
		return message{rpcwire.SetTensor, body}.bytes()
	}
	var clients []*client
	var rest [][]byte
	for i := range 4 {
		c := s.dial(t)
		p := message(c, byte(i))
		_, err := c.Write(p[:n/2])
		require.NoError(t, err)
		clients, rest = append(clients, c), append(rest, p[n/2:])
	}
	require.Eventually(t, func() bool { return used() >= 2*n }, time.Minute, 10*time.Millisecond)
	for i, c := range clients {
		_, err := c.Write(rest[i])
		require.NoError(t, err)
		c.served()
		require.LessOrEqual(t, used(), int64(size))
	}
	require.EqualValues(t, 2*n, used())
}
