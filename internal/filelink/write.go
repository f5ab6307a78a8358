package filelink

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// IsReplaced reports whether writing a path replaces what it names, or makes it: a pipe or a device is
// written to.
func IsReplaced(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// Replace writes a file beside, and renames it. What is not replaced is written to, see [IsReplaced].
func Replace(path string, text []byte) error {
	if !IsReplaced(path) {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = file.Write(text)
		return errors.Join(err, file.Close())
	}
	target, err := Target(path)
	if err != nil {
		return err
	}
	// A name of its own length: with more, the one of the path could be too long. What a killed process left goes.
	folder, name := filepath.Split(target)
	beside := fmt.Sprintf("%s.%08x.new", folder, crc32.ChecksumIEEE([]byte(name)))
	os.Remove(beside)
	file, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return NameError(err, path)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(beside, target)
	}
	if err != nil {
		os.Remove(beside)
		return NameError(err, path)
	}
	return nil
}

// Append adds a text to the end of a file, or leaves it as it was.
func Append(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		_, err = file.Write(text)
	}
	if err != nil && info != nil && info.Mode().IsRegular() {
		err = errors.Join(err, file.Truncate(info.Size()))
	}
	return errors.Join(err, file.Close())
}

// NameError gives an error the name under which the user knows a file, which is written under another.
func NameError(err error, path string) error {
	var where *fs.PathError
	if errors.As(err, &where) {
		where.Path = path
	}
	return err
}
