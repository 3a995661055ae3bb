{{- define "braid.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "braid.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "braid.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "braid.selectorLabels" . }}
{{- end -}}

{{- define "braid.secretName" -}}
{{- default (include "braid.fullname" .) .Values.auth.existingSecret -}}
{{- end -}}

{{- define "braid.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "braid.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "braid.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "braid.configuration" -}}
bind * -::*
{{- if and .Values.tls.enabled (not .Values.tls.plainPort) }}
port 0
{{- else }}
port 6379
{{- end }}
{{- if not .Values.auth.enabled }}
# auth.enabled is false: any client that reaches the service is accepted.
protected-mode no
{{- end }}
dir /data
maxmemory {{ .Values.maxmemory }}
maxmemory-policy {{ .Values.maxmemoryPolicy }}
{{- if .Values.ioThreads }}
io-threads {{ .Values.ioThreads }}
{{- end }}
metrics-port {{ .Values.metrics.port }}
metrics-bind 0.0.0.0
{{- if .Values.tls.enabled }}
tls-port 6380
tls-cert-file /etc/braid-tls/tls.crt
tls-key-file /etc/braid-tls/tls.key
tls-auth-clients {{ .Values.tls.authClients }}
{{- if ne .Values.tls.authClients "no" }}
tls-ca-cert-file /etc/braid-tls/ca.crt
{{- end }}
{{- end }}
{{- if .Values.auth.enabled }}
# Passwords, in a file of the secret so that they do not appear in process lists.
include /etc/braid-auth/auth.conf
{{- end }}
{{- with .Values.config }}
{{ . | trim }}
{{- end }}
{{- end -}}
