package server

import (
	"errors"
	"net/http"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

func keyRoutes() []*route {
	return []*route{
		{method: "POST", path: "/v1/keys", handle: (*Server).createKey, doc: doc{
			id: "createKey", summary: "Make an API key", text: "Nobody has to sign up. The key is in this answer and never again.", answers: map[int]any{201: api.KeyInfo{}},
			codes: []api.Code{api.CodeQuota, api.CodeDraining}}},
		{method: "GET", path: "/v1/keys", handle: (*Server).listKeys, operator: true, doc: doc{
			id: "listKeys", summary: "All living keys, for the operator", answers: map[int]any{200: api.KeyList{}}}},
		{method: "GET", path: "/v1/keys/self", handle: (*Server).ownKey, doc: doc{
			id: "getKey", summary: "The key that is shown, and its quota", text: "Looking costs nothing.", answers: map[int]any{200: api.KeyInfo{}}}},
		{method: "DELETE", path: "/v1/keys/self", handle: (*Server).revokeOwnKey, doc: doc{
			id: "revokeKey", summary: "Revoke the key that is shown", answers: map[int]any{204: nil}}},
		{method: "DELETE", path: "/v1/keys/{key_id}", handle: (*Server).revokeKey, operator: true, doc: doc{
			id: "revokeAnyKey", summary: "Revoke a key by its id, for the operator", answers: map[int]any{204: nil}}},
	}
}

func (s *Server) createKey(w http.ResponseWriter, r *request) error {
	if s.draining.Load() {
		return draining()
	}
	info, err := s.o.Admission.CreateKey(r.Context(), r.client)
	if told, ok := errors.AsType[*api.ServiceError](err); ok && told.Code == api.CodeQuota {
		s.metrics.Key(telemetry.KeyRefused)
	}
	if err != nil {
		return err
	}
	s.metrics.Key(telemetry.KeyIssued)
	s.note(r, telemetry.Entry{Kind: telemetry.EntryKey, KeyID: info.ID})
	return s.answer(w, http.StatusCreated, info)
}

func (s *Server) listKeys(w http.ResponseWriter, r *request) error {
	list := api.KeyList{Keys: []api.KeyInfo{}, APIVersion: api.Version}
	for k, err := range s.o.Admission.Keys(r.Context()) {
		if err != nil {
			return err
		}
		list.Keys = append(list.Keys, k)
	}
	return s.answer(w, http.StatusOK, list)
}

func (s *Server) ownKey(w http.ResponseWriter, r *request) error {
	info, err := s.o.Admission.Key(r.Context(), r.client)
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, info)
}

func (s *Server) revokeOwnKey(w http.ResponseWriter, r *request) error {
	if _, err := s.o.Admission.Key(r.Context(), r.client); err != nil {
		return err
	}
	return s.revoke(w, r, r.client.KeyID)
}

func (s *Server) revokeKey(w http.ResponseWriter, r *request) error {
	id := r.PathValue("key_id")
	if !credential.KeyID.Is(id) {
		return refusal(api.CodeNotFound, "there is no such key")
	}
	return s.revoke(w, r, id)
}

func (s *Server) revoke(w http.ResponseWriter, r *request, id string) error {
	if err := s.o.Admission.Revoke(r.Context(), id); err != nil {
		return err
	}
	s.metrics.Key(telemetry.KeyRevoked)
	s.note(r, telemetry.Entry{Kind: telemetry.EntryRevoked, KeyID: id})
	w.WriteHeader(http.StatusNoContent)
	return nil
}
