package rpc

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/filelink"
)

// hashThreshold is the size from which a client sends a hash first.
const hashThreshold = 10 << 20

// A cache keeps large data in a folder. Files are named by the FNV-1a hash with which clients
// request them.
type cache struct {
	folder string
	limit  int64 // bytes; 0 means no limit

	mu sync.Mutex // one caller at a time makes room
}

// newCache opens a folder, and makes it if absent.
func newCache(folder string, limit int64) (*cache, error) {
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("the cache %s is not a folder", folder)
	}
	if err := filelink.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("the folder of the cache: %w", err)
	}
	c := &cache{folder: folder, limit: limit}
	begun, _ := filepath.Glob(filepath.Join(folder, "*"+begun))
	for _, path := range begun { // left by a server that was killed
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > time.Hour {
			os.Remove(path)
		}
	}
	c.makeRoom(0)
	return c, nil
}

// begun is the suffix of incomplete files.
const begun = ".part"

const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// fnv continues a hash with p.
func fnv(hash uint64, p []byte) uint64 {
	for _, b := range p {
		hash = (hash ^ uint64(b)) * fnvPrime
	}
	return hash
}

func (c *cache) path(hash uint64) string {
	return filepath.Join(c.folder, fmt.Sprintf("%016x", hash))
}

// An entry is data being written to the cache. A nil entry, or one whose file cannot be written,
// keeps nothing; that is not an error, because the client's data is stored on its device anyway.
type entry struct {
	cache *cache
	file  *os.File // nil after failure or completion
	hash  uint64
}

// begin begins an entry of n bytes. Its file has its full size from the start, so that concurrently
// written entries count in full.
func (c *cache) begin(n int64) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.makeRoom(n) {
		return nil
	}
	file, err := os.CreateTemp(c.folder, "*"+begun)
	if err != nil {
		c.warn(err)
		return nil
	}
	e := &entry{cache: c, file: file, hash: fnvOffset}
	if err := file.Truncate(n); err != nil {
		c.warn(err)
		e.abandon()
		return nil
	}
	return e
}

func (c *cache) warn(err error) {
	ggml.Logger().Warn("ggml: RPC server: nothing was added to the cache: " + filelink.SystemError(err).Error())
}

// write writes p; a failure drops the entry.
func (e *entry) write(p []byte) error {
	if e == nil || e.file == nil {
		return nil
	}
	e.hash = fnv(e.hash, p)
	if _, err := e.file.Write(p); err != nil {
		e.cache.warn(err)
		e.abandon()
	}
	return nil
}

// keep completes the entry.
func (e *entry) keep() {
	if e == nil || e.file == nil {
		return
	}
	err := e.file.Close()
	if err == nil {
		err = os.Rename(e.file.Name(), e.cache.path(e.hash))
	}
	if err != nil {
		e.cache.warn(err)
		os.Remove(e.file.Name())
	}
	e.file = nil
}

func (e *entry) abandon() {
	if e == nil || e.file == nil {
		return
	}
	e.file.Close()
	os.Remove(e.file.Name())
	e.file = nil
}

// makeRoom removes the least recently used entries until n more bytes fit, and reports whether they
// do. The caller holds mu.
func (c *cache) makeRoom(n int64) bool {
	if c.limit == 0 {
		return true
	}
	if n > c.limit {
		return false
	}
	type file struct {
		path string
		size int64
		used time.Time
	}
	var files []file
	entries, _ := os.ReadDir(c.folder)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && isEntry(e.Name()) {
			files = append(files, file{filepath.Join(c.folder, e.Name()), info.Size(), info.ModTime()})
			n += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	for _, f := range files {
		if n <= c.limit {
			break
		}
		if !strings.HasSuffix(f.path, begun) && os.Remove(f.path) == nil {
			n -= f.size
		}
	}
	return n <= c.limit
}

// isEntry reports whether a file of the folder belongs to the cache.
func isEntry(name string) bool {
	if strings.HasSuffix(name, begun) {
		return true
	}
	return len(name) == 16 && strings.Trim(name, "0123456789abcdef") == ""
}

// loadCached copies the data of a hash into a region of room bytes, and reports whether the cache
// has it undamaged. A file with other data is not shown to the client.
func (s *session) loadCached(hash uint64, r *region, room int64) (found bool, err error) {
	path := s.server.cache.path(hash)
	// Opening a pipe would block, and a link may lead out of the folder.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > room {
		return false, nil
	}
	sum := uint64(fnvOffset)
	err = s.receive(r, 0, info.Size(), func(p []byte) error {
		_, err := io.ReadFull(file, p)
		sum = fnv(sum, p)
		return err
	}, nil)
	if err != nil || sum != hash {
		ggml.Logger().Warn("ggml: RPC server: a damaged file is removed from the cache: " + path)
		os.Remove(path)
		return false, r.fill(0, info.Size())
	}
	now := time.Now()
	os.Chtimes(path, now, now)
	return true, nil
}
