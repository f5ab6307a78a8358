package cli

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goggml/ggml/internal/filelink"
)

// A File is a file that a flag names; the path is "" when the flag is not given.
type File struct{ Flag, Path string }

// CheckOutputs finds out before the work, not after it, that an output cannot be
// written, or would replace an input or another output.
func CheckOutputs(inputs, outputs []File) error {
	others := inputs
	for _, out := range outputs {
		if out.Path == "" {
			continue
		}
		for _, other := range others {
			if other.Path != "" && SameFile(out.Path, other.Path) {
				return fmt.Errorf("%s %s is the file of %s too; give it another name", out.Flag, out.Path, other.Flag)
			}
		}
		if err := checkWritable(out.Path); err != nil {
			return fmt.Errorf("%s %s cannot be written: %w", out.Flag, out.Path, err)
		}
		others = append(others[:len(others):len(others)], out)
	}
	return nil
}

// checkWritable does what writing the file will: it makes a file beside it, and looks up
// its name.
func checkWritable(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.New("it is a folder")
	}
	if !filelink.IsReplaced(path) {
		return nil
	}
	path, err := filelink.Target(path)
	if err != nil {
		return systemError(err)
	}
	// What a killed process left is replaced and removed by the next.
	folder, name := filepath.Dir(path), filepath.Base(path)
	beside, err := os.Create(filepath.Join(folder, fmt.Sprintf(".try-%08x", crc32.ChecksumIEEE([]byte(name)))))
	if err != nil {
		return fmt.Errorf("folder %s: %w", folder, systemError(err))
	}
	if err := errors.Join(beside.Close(), os.RemoveAll(beside.Name())); err != nil {
		return err
	}
	// A file of the name itself would be an empty output, if the process were killed now.
	if _, err := os.Lstat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return systemError(err)
	}
	return nil
}

// systemError leaves out the name of the file.
func systemError(err error) error {
	var where *fs.PathError
	if errors.As(err, &where) {
		return where.Err
	}
	return err
}

// SameFile reports whether two paths lead to one regular file, or would: what does not
// exist yet is told by its folder and its name.
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

// ReadText reads regular files, one after the other, into one text: a device need not
// end, and who opens a pipe waits for its writer.
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

// CheckRegular demands a file that ends.
func CheckRegular(path string) error {
	_, err := regular(path)
	return err
}

func regular(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, systemError(err))
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder; name the files in it", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is a pipe or a device; write its text into a file", path)
	}
	return info, nil
}

func appendFile(w io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}
