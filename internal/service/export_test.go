package service

import "time"

// LookAgain makes the next handshake look at the files of the certificate.
func LookAgain(s *Service) {
	c := s.o.Certificates
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = time.Time{}
}
