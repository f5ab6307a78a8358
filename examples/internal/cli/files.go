package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/llm/run"
)

// A File is a file that a flag names; Path is "" if the flag is not set.
type File struct{ Flag, Path string }

// CheckOutputs reports before the work starts if an output cannot be written, or would replace an input,
// another output, or a file of a run. Runs in the folders of own are exempt.
func CheckOutputs(inputs, outputs []File, own ...string) error {
	others := WithParts(inputs)
	for _, out := range outputs {
		if out.Path == "" {
			continue
		}
		for _, other := range others {
			if other.Path != "" && SameFile(out.Path, other.Path) {
				return fmt.Errorf("%s %s is also the file of %s; give it another name", out.Flag, out.Path, other.Flag)
			}
		}
		if folder, found := runOf(out.Path); found && !slices.ContainsFunc(own, func(f string) bool { return sameFolder(f, folder) }) {
			return fmt.Errorf("%s %s is a file of the run in %s; give it another name", out.Flag, out.Path, folder)
		}
		if err := filelink.CheckWritable(out.Path); err != nil {
			return fmt.Errorf("%s %s cannot be written: %w", out.Flag, out.Path, err)
		}
		others = append(others[:len(others):len(others)], out)
	}
	return nil
}

// modelPart matches the end of a split model's file name, with any part number.
var modelPart = regexp.MustCompile(`-\d{5}(-of-\d{5}\.gguf)$`)

// special matches the characters that are special in path patterns.
var special = regexp.MustCompile(`[*?\[\\]`)

// WithParts adds files that are read together with inputs: the other parts of a split model, and the files of a
// PEFT folder.
func WithParts(inputs []File) []File {
	list := inputs[:len(inputs):len(inputs)]
	for _, in := range inputs {
		path := special.ReplaceAllString(in.Path, `\$0`)
		pattern := filepath.Join(path, "adapter_*")
		switch {
		case modelPart.MatchString(path):
			pattern = modelPart.ReplaceAllString(path, "-?????$1")
		case strings.HasSuffix(path, ".safetensors"):
			pattern = filepath.Join(filepath.Dir(path), "adapter_*")
		}
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			list = append(list, File{in.Flag, file})
		}
	}
	return list
}

// Aside returns the writer for reports that must not mix with the outputs: standard error if an output is
// standard output, otherwise out.
func Aside(out io.Writer, outputs ...string) io.Writer {
	stdout, err := os.Stdout.Stat()
	isStdout := func(path string) bool {
		info, statErr := os.Stat(path)
		return err == nil && statErr == nil && info.Mode()&fs.ModeCharDevice == 0 && os.SameFile(info, stdout)
	}
	if slices.ContainsFunc(outputs, isStdout) {
		return os.Stderr
	}
	return out
}

// ownFile matches the names of files that a run writes into its folder.
var ownFile = regexp.MustCompile(`^((adapter|checkpoint)(-\d+|-best)?\.gguf|(manifest|config|metrics|samples|commands)\.(json|yaml|jsonl|txt)|loss\.(svg|png)|events\.out\.tfevents\..*)$`)

// runOf returns the folder of the run that wrote a file, if a run did.
func runOf(path string) (folder string, found bool) {
	target, err := filelink.Target(path)
	if err != nil {
		return "", false
	}
	folder = filepath.Dir(target)
	name := filepath.Base(target)
	m, found, err := run.ReadManifest(folder)
	return folder, found && err == nil && (ownFile.MatchString(name) || name == m.Adapter || name == m.Best)
}

func sameFolder(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// IsFile reports whether a path leads to a regular file.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// SameFile reports whether two paths lead to the same regular file. Files that do not exist yet are compared by
// folder and name.
func SameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil || errY == nil {
		return errX == nil && errY == nil && x.Mode().IsRegular() && os.SameFile(x, y)
	}
	a, errX = filelink.Target(a)
	b, errY = filelink.Target(b)
	if errX != nil || errY != nil {
		return false
	}
	x, errX = os.Stat(filepath.Dir(a))
	y, errY = os.Stat(filepath.Dir(b))
	return errX == nil && errY == nil && os.SameFile(x, y) && filepath.Base(a) == filepath.Base(b)
}

// ReadText concatenates regular files. It refuses devices, which may never end, and pipes, where opening waits
// for a writer.
func ReadText(paths ...string) (string, error) {
	var size int64
	for _, path := range paths {
		info, err := regular(path)
		if err != nil {
			return "", err
		}
		size += info.Size()
	}
	var text strings.Builder
	text.Grow(int(size))
	for _, path := range paths {
		if err := appendFile(&text, path); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

// CheckRegular returns an error unless a path is a regular file.
func CheckRegular(path string) error {
	_, err := regular(path)
	return err
}

func regular(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, filelink.SystemError(err))
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder; name the files in it", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is a pipe or a device; write its text into a file", path)
	}
	return info, nil
}

func appendFile(w io.Writer, path string) error {
	file, _, err := filelink.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}
