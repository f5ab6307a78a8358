package train_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/safetensors"
)

// Wherever the disk becomes full, existing files remain, no partial file is left, and the error names
// the file and the cause.
func TestFullDisk(t *testing.T) {
	m := tinyModel(t)
	a := newAdapter(t, m, 1)
	tr := adapterTrainer(t, m, a, pattern(8, 8), options(4))
	ctx := context.Background()
	for name, write := range map[string]func(path string) error{
		"model": func(path string) error { return m.Save(path, model.SaveOptions{}) },
		"merge": func(path string) error {
			return lora.MergeTo(ctx, path, m, []lora.Scaled{{Adapter: a, Scale: 1}}, lora.MergeOptions{Threads: 1})
		},
		"adapter":    func(path string) error { return a.Save(path, lora.SaveOptions{}) },
		"PEFT":       func(path string) error { return a.SavePEFT(path, lora.PEFTOptions{BaseModel: "base"}) },
		"checkpoint": tr.SaveCheckpoint,
		"keys": func(path string) error {
			if _, err := os.Stat(path); err != nil {
				return a.Save(path, lora.SaveOptions{})
			}
			return ggml.EditGGUF(path, func(g *ggml.GGUF) error { return g.Set("x", make([]byte, 20<<10)) })
		},
		"safetensors": func(path string) error {
			return safetensors.WriteFile(path, []safetensors.Data{{Name: "x", Type: safetensors.F32, Shape: []int64{9000}, Values: make([]float32, 9000)}}, nil)
		},
		"cache": func(path string) error {
			examples := func(yield func(int, error) bool) {
				for i := range 5000 {
					if !yield(i, nil) {
						return
					}
				}
			}
			encode := func(i int) (data.Sample, error) { return data.Sample{Tokens: []int32{1, int32(i), 2, 3}}, nil }
			d, _, err := data.Prepare(ctx, examples, encode, data.PrepareOptions{Length: 8, Cache: path, Key: "k"})
			if err == nil {
				err = d.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := smallDisk(t)
			path := filepath.Join(disk, "out")
			whole := filepath.Join(t.TempDir(), "out")
			require.NoError(t, write(whole))
			need := int64(0)
			for _, text := range tree(t, whole) {
				need += int64(len(text))
			}
			refused := 0
			for _, old := range []bool{false, true} {
				for room := int64(0); room < need; room += max(4096, need/6) {
					require.NoError(t, os.RemoveAll(path))
					if old {
						require.NoError(t, write(path))
					}
					before := tree(t, disk)
					if name == "cache" && old {
						continue // only read
					}
					filler := fill(t, disk, room)
					err := write(path)
					require.NoError(t, os.Remove(filler))
					if err == nil { // sizes are rounded up to pages
						continue
					}
					refused++
					require.ErrorIs(t, err, syscall.ENOSPC)
					require.ErrorContains(t, err, path)
					require.ErrorContains(t, err, "no space left on device")
					require.Equal(t, before, tree(t, disk), "with room for %d of %d bytes: %v", room, need, err)
				}
			}
			require.Positive(t, refused)
		})
	}
}

// tree returns the contents of a folder by path.
func tree(t *testing.T, root string) map[string]string {
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	}))
	return found
}

// fill leaves only the given room on a disk.
func fill(t *testing.T, disk string, room int64) string {
	var s syscall.Statfs_t
	require.NoError(t, syscall.Statfs(disk, &s))
	file := need.Value(os.Create(filepath.Join(disk, "filler")))(t)
	pages := int64(s.Bavail) - (room+s.Bsize-1)/s.Bsize
	_, err := file.Write(slices.Repeat([]byte{0}, int(pages*s.Bsize)))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	return file.Name()
}

// smallDisk mounts a file system of 2 MiB for the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("a small file system cannot be mounted here: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(path, syscall.MNT_DETACH)) })
	return path
}
