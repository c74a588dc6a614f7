package spawn

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// socketPair makes the two ends. Both are close-on-exec, so that neither leaks
// into a process that another goroutine forks at this moment; ours does not
// block.
func socketPair() (ours, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("socketpair: %w", err)
	}
	for _, fd := range pair {
		// Room for a packet of the largest size. Where the system allows less,
		// a larger one is refused when it is sent.
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*maxPacket)
		}
	}
	if err == nil {
		err = unix.SetNonblock(pair[0], true)
	}
	if err != nil {
		closeAll(pair[:])
		return -1, -1, fmt.Errorf("set up socketpair: %w", err)
	}
	return pair[0], pair[1], nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// sendPacket sends one packet, whole or not at all.
func sendPacket(socket int, data []byte, fds []int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		err := unix.Sendmsg(socket, data, rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receiver holds the buffers of one reading end.
type receiver struct {
	data   []byte
	rights []byte
}

func newReceiver() *receiver {
	return &receiver{data: make([]byte, maxPacket), rights: make([]byte, unix.CmsgSpace(4*maxDescriptors))}
}

// receive returns the next packet and its descriptors, which the caller owns
// from then on; with an error there are none. The bytes are valid until the
// next call. The end of the conversation is io.EOF.
func (r *receiver) receive(socket int) (data []byte, fds []int, err error) {
	var n, rn, flags int
	for {
		n, rn, flags, _, err = unix.Recvmsg(socket, r.data, r.rights, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.ECONNRESET) {
		return nil, nil, io.EOF // the peer died with our packets unread
	}
	if err != nil {
		return nil, nil, err
	}
	fds, err = descriptors(r.rights[:rn])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = fmt.Errorf("truncated packet: %w", errProtocol)
	}
	if err == nil && n == 0 {
		// Nobody sends empty packets; descriptors on one would be dropped here.
		err = io.EOF
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	return r.data[:n], fds, nil
}

// descriptors takes the descriptors out of control data. It returns all that
// it found also with an error, because they are open already.
func descriptors(control []byte) (fds []int, err error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("parse control data: %w", err)
	}
	for i := range messages {
		rights, parseErr := unix.ParseUnixRights(&messages[i])
		fds = append(fds, rights...)
		if parseErr != nil {
			err = fmt.Errorf("parse control data: %w", parseErr)
		}
	}
	return fds, err
}
