package filelock

import (
	"errors"
	"os"
)

// Create opens the file at a path, makes it when there is none, and locks it. [Remove] ends
// that. A process that is killed leaves a file which the next one locks. The error is
// ErrLocked where somebody else has the lock; a file of a system without locks is not
// locked.
func Create(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return nil, err
		}
		if err := Lock(file); err == ErrLocked {
			file.Close()
			return nil, err
		}
		if IsAt(path, file) {
			return file, nil
		}
		file.Close() // whose lock it was has removed it meanwhile
	}
}

// Remove removes a file that Create has locked, and unlocks it after that: whoever opened
// it before sees that it is gone.
func Remove(file *os.File) error {
	return errors.Join(os.Remove(file.Name()), file.Close())
}

// RemoveAbandoned removes a file that nobody has locked: its owner died.
func RemoveAbandoned(path string) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	if Lock(file) == nil && IsAt(path, file) {
		os.Remove(path)
	}
	file.Close()
}

// IsAt reports whether the path still leads to the open file.
func IsAt(path string, file *os.File) bool {
	at, err := os.Stat(path)
	info, err2 := file.Stat()
	return err == nil && err2 == nil && os.SameFile(at, info)
}
