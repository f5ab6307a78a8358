package lora

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/filelink"
)

// A peftFiles has the paths of an adapter's files.
type peftFiles struct{ config, tensors string }

// committedName is a folder inside the adapter's folder. It contains the files of a complete new pair that have not
// been moved yet.
const committedName = ".adapter.next"

// findPEFT reports whether a path is a PEFT adapter: its folder, or one of its files.
func findPEFT(path string) (peftFiles, bool, error) {
	folder, base := filepath.Dir(path), filepath.Base(path)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		folder = path
	case base == peftConfigName || base == peftTensorsName:
	case strings.HasSuffix(base, ".safetensors"):
		return peftFiles{pairFile(folder, peftConfigName), path}, true, nil
	default:
		return peftFiles{}, false, nil
	}
	f := peftFiles{pairFile(folder, peftConfigName), pairFile(folder, peftTensorsName)}
	return f, true, f.check(folder)
}

// pairFile returns the current path of a file of a folder: in committedName if it has not been moved yet.
func pairFile(folder, name string) string {
	if path := filepath.Join(folder, committedName, name); exists(path) {
		return path
	}
	return filepath.Join(folder, name)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// check returns an error that names the files that a folder lacks.
func (f peftFiles) check(folder string) error {
	switch config, tensors := exists(f.config), exists(f.tensors); {
	case !config && !tensors:
		return fmt.Errorf("%s: is not a PEFT adapter: it has neither %s nor %s", folder, peftConfigName, peftTensorsName)
	case !config:
		return fmt.Errorf("%s: %s is missing, which has the strength of the adapter", folder, peftConfigName)
	case !tensors && exists(filepath.Join(folder, "adapter_model.bin")):
		return fmt.Errorf("%s: adapter_model.bin is a PyTorch pickle, which is unsupported; save the adapter as %s with PEFT 0.6 or newer (save_pretrained)", folder, peftTensorsName)
	case !tensors:
		return fmt.Errorf("%s: %s is missing", folder, peftTensorsName)
	}
	return nil
}

// writePair replaces files in a folder, all or none. It writes them to a temporary folder inside and commits them by
// renaming that folder to committedName: from then on [Load] reads the new files, even those that have not been
// moved yet.
func writePair(folder string, files map[string]func(io.Writer) error) error {
	if err := filelink.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	if err := movePair(folder); err != nil { // left by a process that died
		return err
	}
	pending := filepath.Join(folder, ".adapter.tmp")
	if err := os.RemoveAll(pending); err != nil {
		return err
	}
	if err := os.Mkdir(pending, 0o777); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := filelink.Write(filepath.Join(pending, name), files[name]); err != nil {
			os.RemoveAll(pending)
			return fmt.Errorf("adapter %s: %w", filepath.Join(folder, name), filelink.SystemError(err))
		}
	}
	if err := os.Rename(pending, filepath.Join(folder, committedName)); err != nil {
		os.RemoveAll(pending)
		return err
	}
	return movePair(folder)
}

// movePair moves the committed files to their places, if there are any.
func movePair(folder string) error {
	committed := filepath.Join(folder, committedName)
	entries, err := os.ReadDir(committed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if err == nil {
			err = os.Rename(filepath.Join(committed, e.Name()), filepath.Join(folder, e.Name()))
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(committed)
}
