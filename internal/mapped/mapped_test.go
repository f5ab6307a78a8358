package mapped

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
)

func open(t require.TestingT, path string) *File {
	file := need.Value(os.Open(path))(t)
	return need.Value(New(file))(t)
}

func write(t *testing.T, size int) (path string, content []byte) {
	path, content = filepath.Join(t.TempDir(), "file"), make([]byte, size)
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range content {
		content[i] = byte(rng.Uint32())
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path, content
}

// Reads return the bytes of the file, mapped or not, from several goroutines.
func TestReadAt(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 100_000} {
		path, content := write(t, size)
		direct := need.Value(os.Open(path))(t)
		defer direct.Close()
		f := open(t, path)
		defer f.Close()
		require.EqualValues(t, size, f.Size())
		rapid.Check(t, func(t *rapid.T) {
			at, n := rapid.IntRange(-1, size+10).Draw(t, "offset"), rapid.IntRange(1, size+10).Draw(t, "bytes")
			got, want := make([]byte, n), make([]byte, n)
			gotN, gotErr := f.ReadAt(got, int64(at))
			wantN, wantErr := direct.ReadAt(want, int64(at))
			require.Equal(t, wantN, gotN)
			require.Equal(t, wantErr == nil, gotErr == nil)
			require.Equal(t, errors.Is(wantErr, io.EOF), errors.Is(gotErr, io.EOF))
			require.Equal(t, want, got)
		})
		var group sync.WaitGroup
		for range 4 {
			group.Add(1)
			go func() {
				defer group.Done()
				all, err := io.ReadAll(io.NewSectionReader(f, 0, int64(size)))
				if err != nil || string(all) != string(content) {
					t.Errorf("%d bytes of %d, %v", len(all), size, err)
				}
			}()
		}
		group.Wait()
	}
}

func TestClosed(t *testing.T) {
	path, _ := write(t, 10)
	f := open(t, path)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err := f.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, os.ErrClosed)
}

// Truncating a mapped file gives an error, and the process continues.
func TestTruncatedUnderneath(t *testing.T) {
	path, _ := write(t, 1<<20)
	f := open(t, path)
	defer f.Close()
	require.NoError(t, os.Truncate(path, 10))
	_, err := f.ReadAt(make([]byte, 100), 1<<19)
	require.Error(t, err)
	require.ErrorContains(t, err, "EOF")
}

// Pages do not stay resident after reading.
func TestResidentMemory(t *testing.T) {
	const size = 96 << 20
	path := filepath.Join(t.TempDir(), "file")
	file := need.Value(os.Create(path))(t)
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i)
	}
	for range size / len(block) {
		_, err := file.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, file.Close())
	f := open(t, path)
	defer f.Close()
	if _, known := residentPart(t, path); !known {
		t.Skip("which pages of a file are resident is unknown here")
	}
	most := int64(0)
	for at := int64(0); at < size; at += 1 << 16 {
		_, err := f.ReadAt(block[:1<<12], at)
		require.NoError(t, err)
		if at%(1<<20) == 0 {
			now, _ := residentPart(t, path)
			most = max(most, now)
		}
	}
	require.Positive(t, most)
	require.LessOrEqual(t, most, int64(2*maxResident))
}

// residentPart returns how many bytes of a file this process has mapped and resident, as reported
// by Linux.
func residentPart(t *testing.T, path string) (bytes int64, known bool) {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return 0, false
	}
	mine := false
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if !strings.HasSuffix(fields[0], ":") { // a mapping, whose file comes last
			mine = fields[len(fields)-1] == path
		} else if mine && fields[0] == "Rss:" {
			kib := need.Value(strconv.ParseInt(fields[1], 10, 64))(t)
			bytes += kib << 10
		}
	}
	return bytes, true
}
