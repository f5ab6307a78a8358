package lora_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// twoAdapters differ in all contents of a PEFT folder.
func twoAdapters(t *testing.T, m *model.Model) [2]*lora.Adapter {
	return [2]*lora.Adapter{
		trained(t, m, lora.Options{Rank: 4, Alpha: 8, Targets: []string{"attn_q"}, Seed: 1}),
		trained(t, m, lora.Options{Rank: 9, Alpha: 5, Seed: 2}),
	}
}

const savingFolder = "GOGGML_TEST_SAVE_PEFT" // where TestSavePEFTKilled has another process save

// Whenever a saving process is killed, the folder has the old pair or the new one, and the next save works.
func TestSavePEFTKilled(t *testing.T) {
	need.Time(t, "kills 20 processes")
	m := tinyModel(t, false)
	adapters := twoAdapters(t, m)
	if folder := os.Getenv(savingFolder); folder != "" {
		for i := 0; ; i++ {
			require.NoError(t, adapters[i%2].SavePEFT(folder, lora.PEFTOptions{}))
		}
	}
	folder := t.TempDir()
	require.NoError(t, adapters[0].SavePEFT(folder, lora.PEFTOptions{}))
	found := map[int]int{}
	for range 20 {
		before := need.Value(os.Stat(filepath.Join(folder, "adapter_config.json")))(t)
		c := testutil.Command(os.Args[0], "-test.run=^TestSavePEFTKilled$")
		c.Env = append(os.Environ(), savingFolder+"="+folder)
		require.NoError(t, c.Start())
		require.Eventually(t, func() bool {
			now, err := os.Stat(filepath.Join(folder, "adapter_config.json"))
			return err == nil && !os.SameFile(before, now)
		}, time.Minute, time.Millisecond, "it saves")
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		require.NoError(t, c.Process.Kill())
		_ = c.Wait() // "signal: killed"
		a := need.Value(lora.Load(folder, m))(t)
		i := 0
		if a.Rank() == 9 {
			i = 1
		}
		requireEqual(t, adapters[i], a)
		require.NoError(t, a.Close())
		found[i]++
	}
	t.Logf("found the one adapter %d times, the other %d times", found[0], found[1])
	requireCleanSave(t, folder, adapters[1], m)
}

// requireCleanSave checks that a save leaves the two files and nothing else.
func requireCleanSave(t *testing.T, folder string, a *lora.Adapter, m *model.Model) {
	t.Helper()
	require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{}))
	b := load(t, folder, m)
	requireEqual(t, a, b)
	files := need.Value(os.ReadDir(folder))(t)
	require.Len(t, files, 2)
}

// Each state that a save can be left in.
func TestSavePEFTInterrupted(t *testing.T) {
	m := tinyModel(t, false)
	adapters := twoAdapters(t, m)
	const config, tensors = "adapter_config.json", "adapter_model.safetensors"
	for _, test := range []struct {
		name  string
		leave func(t *testing.T, folder, made string) // made has the new pair
		found int
	}{
		{"one file is made", func(t *testing.T, folder, made string) {
			require.NoError(t, os.Remove(filepath.Join(made, tensors)))
			require.NoError(t, os.Rename(made, filepath.Join(folder, ".adapter.tmp")))
		}, 0},
		{"both files are made", func(t *testing.T, folder, made string) {
			require.NoError(t, os.Rename(made, filepath.Join(folder, ".adapter.tmp")))
		}, 0},
		{"both count", func(t *testing.T, folder, made string) {
			require.NoError(t, os.Rename(made, filepath.Join(folder, ".adapter.next")))
		}, 1},
		{"one is moved", func(t *testing.T, folder, made string) {
			require.NoError(t, os.Rename(filepath.Join(made, config), filepath.Join(folder, config)))
			require.NoError(t, os.Rename(made, filepath.Join(folder, ".adapter.next")))
		}, 1},
		{"both are moved", func(t *testing.T, folder, made string) {
			for _, name := range []string{config, tensors} {
				require.NoError(t, os.Rename(filepath.Join(made, name), filepath.Join(folder, name)))
			}
			require.NoError(t, os.Rename(made, filepath.Join(folder, ".adapter.next")))
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder, made := t.TempDir(), filepath.Join(t.TempDir(), "made")
			require.NoError(t, adapters[0].SavePEFT(folder, lora.PEFTOptions{}))
			require.NoError(t, adapters[1].SavePEFT(made, lora.PEFTOptions{}))
			test.leave(t, folder, made)
			for _, path := range []string{folder, filepath.Join(folder, config), filepath.Join(folder, tensors)} {
				a := need.Value(lora.Load(path, m))(t)
				requireEqual(t, adapters[test.found], a)
				require.NoError(t, a.Close())
			}
			requireCleanSave(t, folder, adapters[0], m)
		})
	}
}
