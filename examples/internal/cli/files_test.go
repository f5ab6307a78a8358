//go:build unix

package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func TestCheckOutputs(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.WriteFile(in("text"), nil, 0o600))
	require.NoError(t, os.Mkdir(in("sub"), 0o700))
	require.NoError(t, os.Symlink(in("sub"), in("link")))
	require.NoError(t, os.Symlink(in("text"), in("text-link")))
	check := func(outputs ...string) error {
		var files []File
		for i, path := range outputs {
			files = append(files, File{Flag: []string{"--first", "--second"}[i], Path: path})
		}
		return CheckOutputs([]File{{Flag: "--in", Path: in("text")}, {Flag: "--none"}}, files)
	}
	longest := strings.Repeat("x", 255)
	for _, good := range [][]string{
		{""}, {in("a"), in("b")}, {in("a"), in("sub/a")}, {in("a"), ""}, {in(longest)}, {in("link/" + longest)}, {os.DevNull, os.DevNull},
	} {
		require.NoError(t, check(good...), good)
	}
	for want, bad := range map[string][]string{
		"--first " + in("text-link") + " is also the file of --in; give it another name":                       {in("text-link")},
		"--second " + in("link/a") + " is also the file of --first; give it another name":                      {in("sub/a"), in("link/a")},
		"--second " + in("sub/../a") + " is also the file of --first; give it another name":                    {in("a"), in("sub/../a")},
		"--first " + in(longest+"x") + " cannot be written: file name too long":                                {in(longest + "x")},
		"--first " + in("sub") + " cannot be written: it is a folder":                                          {in("sub")},
		"--first " + in("none/a") + " cannot be written: folder " + in("none") + ": no such file or directory": {in("none/a")},
	} {
		require.EqualError(t, check(bad...), want)
	}
	var names []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, filepath.Base(path))
		return err
	}))
	require.ElementsMatch(t, []string{filepath.Base(folder), "link", "sub", "text", "text-link"}, names, "the check leaves nothing behind")
}

func TestReadText(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.WriteFile(in("a"), []byte("one"), 0o600))
	require.NoError(t, os.WriteFile(in("b"), []byte("two\n"), 0o600))
	require.NoError(t, syscall.Mkfifo(in("pipe"), 0o600))
	text := need.Value(ReadText(in("a"), in("b"), in("a")))(t)
	require.Equal(t, "onetwo\none", text)
	for path, want := range map[string]string{
		in("none"):  "open " + in("none") + ": no such file or directory",
		folder:      folder + " is a folder; name the files in it",
		in("pipe"):  in("pipe") + " is a pipe or a device; write its text into a file",
		"/dev/zero": "/dev/zero is a pipe or a device; write its text into a file",
	} {
		_, err := ReadText(in("a"), path)
		require.EqualError(t, err, want)
	}
}

// An output must not be a file that is read with an input: a part of a split model, or a file of a PEFT folder.
func TestCheckOutputsBesideInputs(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a[b]")
	in := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.MkdirAll(in("peft"), 0o700))
	for _, name := range []string{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "peft/adapter_config.json", "peft/adapter_model.safetensors"} {
		require.NoError(t, os.WriteFile(in(name), nil, 0o600))
	}
	require.NoError(t, os.Link(in("m-00002-of-00002.gguf"), in("hard")))
	for _, input := range []string{in("peft"), in("peft/adapter_model.safetensors")} {
		inputs := []File{{"--model", in("m-00001-of-00002.gguf")}, {"--lora", input}}
		for out, flag := range map[string]string{
			"m-00002-of-00002.gguf": "--model", "hard": "--model", "peft/adapter_config.json": "--lora", "peft/adapter_model.safetensors": "--lora",
		} {
			require.EqualError(t, CheckOutputs(inputs, []File{{"--out", in(out)}}), "--out "+in(out)+" is also the file of "+flag+"; give it another name")
		}
		require.NoError(t, CheckOutputs(inputs, []File{{"--out", in("peft/merged.gguf")}, {"--parts", in("m-00001-of-00003.gguf")}}))
	}
}
