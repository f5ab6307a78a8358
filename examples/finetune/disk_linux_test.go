package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// If the disk is full, the run ends with an error that says what was saved, and its folder keeps a whole
// checkpoint. With more room the same command ends with the files of an undisturbed run.
func TestFullDiskLosesNothing(t *testing.T) {
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	disk := smallDisk(t, filepath.Join(files, "disk"))
	need.Output(t, folderRun(files, "whole"))

	// Room for the first saves, but not for later ones, which briefly keep the previous save.
	var room int64
	for name, text := range contents(t, filepath.Join(files, "whole")) {
		if name == "adapter.gguf" || name == "checkpoint.gguf" {
			room += int64(len(text))
		}
	}
	filler := need.Value(os.Create(filepath.Join(disk, "filler")))(t)
	require.NoError(t, syscall.Fallocate(int(filler.Fd()), 0, 0, 1<<20-room-128<<10))
	require.NoError(t, filler.Close())
	out, err := folderRun(files, "disk/run").CombinedOutput()
	require.Error(t, err, string(out))
	require.Regexp(t, `finetune: the (adapter|checkpoint): .*: no space left on device; disk/run/adapter\.gguf has the result of step \d+\n`, string(out))
	for name := range contents(t, filepath.Join(files, "disk/run")) {
		require.NotRegexp(t, `\.tmp$`, name)
	}

	require.NoError(t, os.Remove(filler.Name()))
	require.Contains(t, need.Output(t, folderRun(files, "disk/run")), "continuing from disk/run/checkpoint.gguf at step ")
	want, got := contents(t, filepath.Join(files, "whole")), contents(t, filepath.Join(files, "disk/run"))
	for name := range want {
		require.True(t, want[name] == got[name], "%s differs", name)
	}
	require.Len(t, got, len(want))
}

// Whichever file meets the full disk, the error has its flag and its name, and no temporary file remains. With
// more room the same command ends with the files of an undisturbed run.
func TestFullDiskAnywhere(t *testing.T) {
	need.Time(t, "it takes seconds")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	disk := smallDisk(t, filepath.Join(files, "disk"))
	more := []string{"--adam-iter", "6", "--loss-curve", "disk/curve"}
	used := func() int64 {
		var s syscall.Statfs_t
		require.NoError(t, syscall.Statfs(disk, &s))
		return int64(s.Blocks-s.Bavail) * s.Bsize
	}
	need.Output(t, folderRun(files, "disk/run", more...))
	want, size := contents(t, filepath.Join(disk, "run")), used()
	named := map[string]bool{}
	const file = `(--train-data: .*\.tokens|--valid-data: .*\.tokens|--run-dir: .*/(?:config\.yaml|manifest\.json|commands\.txt)|the metrics: .*/metrics\.jsonl|` +
		`the adapter: .*\.gguf|the checkpoint: .*\.gguf|the run is complete and its result is saved, but: .*/curve\.(?:svg|png))`
	full := regexp.MustCompile(`(?m)^finetune: ` + file + `(?:\.pending)?: (?:cannot be written: )?no space left on device(?:; disk/run/adapter\.gguf has the result of step \d)?$`)
	for room := int64(0); room < size; room += size / 12 &^ 4095 {
		entries := need.Value(os.ReadDir(disk))(t)
		for _, e := range entries {
			require.NoError(t, os.RemoveAll(filepath.Join(disk, e.Name())))
		}
		filler := need.Value(os.Create(filepath.Join(disk, "filler")))(t)
		require.NoError(t, syscall.Fallocate(int(filler.Fd()), 0, 0, 1<<20-room))
		require.NoError(t, filler.Close())
		out, err := folderRun(files, "disk/run", more...).CombinedOutput()
		require.EqualError(t, err, "exit status 1", string(out))
		require.Regexp(t, full, string(out))
		named[full.FindStringSubmatch(string(out))[1]] = true
		require.NoError(t, filepath.WalkDir(disk, func(path string, d fs.DirEntry, err error) error {
			require.NotRegexp(t, `\.(tmp|new|pending)$|/\.(loss-curve|try)-`, path)
			return err
		}))
		require.NoError(t, os.Remove(filler.Name()))
		need.Output(t, folderRun(files, "disk/run", more...))
		require.Equal(t, want, contents(t, filepath.Join(disk, "run")))
	}
	require.Greater(t, len(named), 5, "%v", named)
}

// A folder that is not writable is an error before anything is read, even if it holds a run.
func TestReadOnlyFolder(t *testing.T) {
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	disk := smallDisk(t, filepath.Join(files, "disk"))
	need.Output(t, folderRun(files, "disk/run", "--adam-iter", "3"))
	require.NoError(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for folder, want := range map[string]string{
		"disk/run": "finetune: --run-dir: open disk/run/.lock: read-only file system\n",
		"disk/new": "finetune: --run-dir: mkdir disk/new: read-only file system\n",
	} {
		out, err := folderRun(files, folder, "--adam-iter", "6").CombinedOutput()
		require.EqualError(t, err, "exit status 1")
		require.Equal(t, want, string(out))
	}
	for _, output := range [][]string{
		{"export", "--lora", "disk/run/adapter.gguf", "--peft-out", "disk/peft"},
		{"export", "--lora", "disk/run/adapter.gguf", "--lora-out", "disk/a.gguf"},
		{"merge", "--lora", "disk/run/adapter.gguf", "--model-out", "disk/m.gguf"},
	} {
		c := exec.Command("finetune", append(output, "--model-base", "base.gguf")...)
		c.Dir = files
		out, err := c.CombinedOutput()
		require.EqualError(t, err, "exit status 1")
		require.Regexp(t, `(?m)^finetune: `+output[3]+`.*disk.*: read-only file system\n$`, string(out))
	}
	// Its files can be read.
	again := need.Output(t, folderRun(files, "other", "--adam-iter", "6", "--checkpoint-in", "disk/run/checkpoint.gguf"))
	require.Contains(t, again, "continuing from disk/run/checkpoint.gguf at step 3")
}

// smallDisk mounts a file system of 1 MiB until the test ends.
func smallDisk(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.Mkdir(path, 0o700))
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("a small file system cannot be mounted here: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(path, syscall.MNT_DETACH)) })
	return path
}
