package ggml_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// fileNames lists a folder.
func fileNames(t *testing.T, folder string) (list []string) {
	entries := need.Value(os.ReadDir(folder))(t)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// small returns a GGUF of one tensor of 16 bytes, which write writes.
func small(t *testing.T, write func(w io.Writer) error) *ggml.GGUF {
	g := newGGUF(t)
	require.NoError(t, g.AddTensorFrom(ggml.GGUFTensor{Name: "t", Type: ggml.F32, Shape: []int64{4}}, write))
	return g
}

func smallFull(w io.Writer) error {
	_, err := w.Write(make([]byte, 16))
	return err
}

// Too much data is an error, even if the function ignores errors of Write.
func TestGGUFTooMuchData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	for name, write := range map[string]func(w io.Writer) error{
		"at once": func(w io.Writer) error {
			_, err := w.Write(make([]byte, 300))
			return err
		},
		"at once, and no notice": func(w io.Writer) error {
			w.Write(make([]byte, 300))
			return nil
		},
		"in parts": func(w io.Writer) error {
			for range 3 {
				w.Write(make([]byte, 100))
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, small(t, write).WriteFile(path), "ggml: "+path+`: cannot be written: tensor "t" of 16 bytes: more data than the type and shape of the tensor take: 300 bytes or more`)
		})
	}
}

// A function that panics, or ends its goroutine, leaves neither a file nor a descriptor.
func TestGGUFWriteInterrupted(t *testing.T) {
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not list descriptors")
		}
		return len(entries)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "m.gguf")
	pipe := filepath.Join(t.TempDir(), "null")
	require.NoError(t, os.Symlink("/dev/null", pipe))
	for name, end := range map[string]func(){"panic": func() { panic("oh") }, "Goexit": runtime.Goexit} {
		for _, write := range []func(g *ggml.GGUF){
			func(g *ggml.GGUF) { g.WriteFile(path) },
			func(g *ggml.GGUF) { g.WriteFile(pipe) },
			func(g *ggml.GGUF) { g.WriteParts(path, ggml.PartOptions{KeysFirst: true}) },
		} {
			t.Run(name, func(t *testing.T) {
				g := small(t, func(io.Writer) error {
					end()
					return nil
				})
				before := descriptors()
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { recover() }()
					write(g)
				}()
				<-done
				require.Empty(t, fileNames(t, folder))
				require.Equal(t, before, descriptors())
				require.NoError(t, g.Close())
			})
		}
	}
}

// pendingEnv is set to the path that the test binary writes until it is killed.
const pendingEnv = "GOGGML_TEST_PENDING"

// The next write of the same name removes the file of a killed process, but not the file of a
// living one, nor other files with such names.
func TestGGUFAbandoned(t *testing.T) {
	if path := os.Getenv(pendingEnv); path != "" {
		small(t, func(w io.Writer) error {
			os.Stdout.WriteString("writing\n")
			select {}
		}).WriteFile(path)
	}
	folder := t.TempDir()
	for _, name := range []string{"m.gguf", strings.Repeat("ä", 125) + ".gguf"} { // 255 bytes
		path := filepath.Join(folder, name)
		others := []string{name + ".ABCDEFGH.tm", name + ".abcdefgh.tmp", name + ".tmp", "x" + name + ".ABCDEFGH.tmp"}
		for i, other := range others {
			if len(other) > 255 {
				others[i] = "y" + other[100:]
			}
			require.NoError(t, os.WriteFile(filepath.Join(folder, others[i]), nil, 0o600))
		}
		start := func() *exec.Cmd {
			self := need.Value(os.Executable())(t)
			p := exec.Command(self, "-test.run=^TestGGUFAbandoned$")
			p.Env = append(os.Environ(), pendingEnv+"="+path)
			out := need.Value(p.StdoutPipe())(t)
			require.NoError(t, p.Start())
			said := make([]byte, 8)
			_, err := io.ReadFull(out, said)
			require.NoError(t, err)
			return p
		}
		living := start()
		killed := start()
		require.Len(t, fileNames(t, folder), len(others)+2)
		require.NoError(t, killed.Process.Kill())
		killed.Wait()
		require.NoError(t, small(t, smallFull).WriteFile(path))
		require.Len(t, fileNames(t, folder), len(others)+2, "the living one's is there")
		require.Subset(t, fileNames(t, folder), append(others, name))
		require.NoError(t, living.Process.Kill())
		living.Wait()
		require.NoError(t, small(t, smallFull).WriteFile(path))
		require.ElementsMatch(t, append(others, name), fileNames(t, folder))
		for _, name := range fileNames(t, folder) {
			require.NoError(t, os.Remove(filepath.Join(folder, name)))
		}
	}
}

// Every name that the file system accepts can be written, up to the maximum length.
func TestGGUFLongNames(t *testing.T) {
	folder := t.TempDir()
	for n := 236; n <= 256; n++ {
		path := filepath.Join(folder, strings.Repeat("n", n))
		err := small(t, smallFull).WriteFile(path)
		if os.WriteFile(path, nil, 0o600) != nil {
			require.ErrorContains(t, err, "cannot be written: file name too long", n)
			continue
		}
		require.NoError(t, err, n)
		require.NoError(t, os.Remove(path))
	}
	require.Empty(t, fileNames(t, folder))
}

// Several goroutines may write the same file: the last one wins.
func TestGGUFWriteSameFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m.gguf")
	done := make(chan error)
	for i := range 8 {
		go func() {
			var err error
			for range 20 {
				g, failed := ggml.NewGGUF()
				if failed != nil {
					done <- failed
					return
				}
				g.AddTensorFrom(ggml.GGUFTensor{Name: "t", Type: ggml.I8, Shape: []int64{1 << 12}}, func(w io.Writer) error {
					_, err := w.Write(bytes.Repeat([]byte{byte(i)}, 1<<12))
					return err
				})
				if e := g.WriteFile(path); e != nil {
					err = e
				}
				g.Close()
			}
			done <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
	require.Equal(t, []string{"m.gguf"}, fileNames(t, folder))
	data := tensorBytes(t, openGGUF(t, path), "t")
	require.Equal(t, bytes.Repeat(data[:1], 1<<12), data)
}

// A model that cannot be replaced as a whole stays unchanged.
func TestWritePartsKeepsOld(t *testing.T) {
	folder := t.TempDir()
	prefix := filepath.Join(folder, "m")
	paths := need.Value(fullGGUF(t).WriteParts(prefix, ggml.PartOptions{MaxTensors: 2}))(t)
	require.Len(t, paths, 3)
	read := func() (all [][]byte) {
		for _, path := range paths[:2] {
			data := need.Value(os.ReadFile(path))(t)
			all = append(all, data)
		}
		return all
	}
	before := read()
	require.NoError(t, os.Remove(paths[2]))
	require.NoError(t, os.MkdirAll(filepath.Join(paths[2], "in the way"), 0o700))
	newer := fullGGUF(t)
	require.NoError(t, newer.Set("text", "newer"))
	_, err := newer.WriteParts(prefix, ggml.PartOptions{MaxTensors: 2})
	require.ErrorContains(t, err, "m-00003-of-00003.gguf: cannot be written: ")
	require.Equal(t, before, read())
	require.Len(t, fileNames(t, folder), 3)

	// If some files of a model are new, they are removed again.
	require.NoError(t, os.Remove(paths[0]))
	_, err = newer.WriteParts(prefix, ggml.PartOptions{MaxTensors: 2})
	require.Error(t, err)
	require.Len(t, fileNames(t, folder), 2)

	require.NoError(t, os.RemoveAll(paths[2]))
	_, err = newer.WriteParts(prefix, ggml.PartOptions{MaxTensors: 2})
	require.NoError(t, err)
	require.Len(t, fileNames(t, folder), 3)
	text, _ := openGGUF(t, paths[0]).Value("text")
	require.Equal(t, "newer", text)
}
