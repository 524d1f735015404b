{{- define "evalstream.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "evalstream.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "evalstream.selector" . }}
{{- end }}

{{- define "evalstream.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "evalstream.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "evalstream.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "evalstream.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/*
Refuses what would make pods unreachable, idle, killed at work, unable to start or to keep a file, or one member of a
group of many: a file that is pasted under `config` may say so. Ports are values of `service`, since containers, Services and the network policy name them too.
*/}}
{{- define "evalstream.refuse" -}}
{{- $config := .Values.config }}
{{- include "evalstream.literals" (list "config" (omit .Values.config "evaluators" "monitors")) }}
{{- range $section, $value := dict "export.prometheus" "metricsPort" "receive.otlp_http" "otlpPort" "receive.otlp_grpc" "otlpGrpcPort" }}
{{- $own := $config }}
{{- range splitList "." $section }}{{ $own = index $own . | default dict }}{{ end }}
{{- $port := index $.Values.service $value }}
{{- if and (hasKey $own "port") (ne (toString $own.port) (toString $port)) }}
{{- printf "config.%s.port: %v is not the port of the chart's containers and Services, service.%s: %v; remove it, and set service.%s" $section $own.port $value $port $value | fail }}
{{- end }}
{{- if regexMatch "^(localhost|127\\..*|::1)$" (toString $own.host) }}
{{- printf "config.%s.host: %v is reached by nothing outside the pod, so not by Services and probes; remove it" $section $own.host | fail }}
{{- end }}
{{- end }}
{{- with dig "port" 8321 ($config.page | default dict) }}{{ if not (or (eq (toString .) "8321") (contains "${env:" (toString .))) }}
{{- printf "config.page.port: %v is not 8321, the port that pages and notes name for port-forward; remove it, since the page is alone in its pod" . | fail }}
{{- end }}{{ end }}
{{- if and .Values.stages.page.enabled (hasKey $config "page") (kindIs "invalid" $config.page) }}
{{- "config.page: null would leave the pod of stages.page without a page; remove it, or set stages.page.enabled=false" | fail }}
{{- end }}
{{- $ids := dict "log.kafka" (dig "log" "kafka" dict $config) }}
{{- range $number, $source := dig "receive" "kafka" list $config }}{{ $_ := set $ids (printf "receive.kafka[%d]" $number) $source }}{{ end }}
{{- range $place, $settings := $ids }}
{{- with $settings.group_instance_id }}{{ if not (contains "${env:POD_NAME}" .) }}
{{- printf "config.%s.group_instance_id: %s would be the id of every pod, and each would end the one before; remove it, since the chart gives pods of a StatefulSet their own, or write a name with ${env:POD_NAME}" $place . | fail }}
{{- end }}{{ end }}
{{- end }}
{{- $known := $config.evaluators | default dict }}
{{- range $monitor, $settings := $config.monitors }}{{ range $settings.evaluators }}
{{- $name := . }}{{ if kindIs "map" . }}{{ $name = .name }}{{ end }}
{{- if not (or (hasKey $known $name) (contains "${env:" $name)) }}
{{- printf "config.monitors.%s.evaluators: %s is not in config.evaluators, which has %s" $monitor $name (keys $known | sortAlpha | join ", " | default "none") | fail }}
{{- end }}
{{- end }}{{ end }}
{{- with ($config.export | default dict).jsonl }}{{ with .path }}
{{- $path := toString . }}
{{- $kept := or (contains "${env:" $path) (hasPrefix "/dev/" $path) }}
{{- range $.Values.extraVolumeMounts }}{{ $kept = or $kept (hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) (printf "%s/" $path)) }}{{ end }}
{{- if not $kept }}
{{- printf "config.export.jsonl.path: %s is on no volume that outlives a pod; add one to extraVolumes and extraVolumeMounts, and write a path on it" $path | fail }}
{{- end }}
{{- end }}{{ end }}
{{- with regexFind "^[0-9.]+ *(ms|s|m|h|d)?$" (dig "evaluate" "shutdown_grace" "20s" $config | toString | trim) }}
{{- $units := dict "ms" 0.001 "s" 1 "m" 60 "h" 3600 "d" 86400 }}
{{- $seconds := regexFind "[a-z]+$" . | default "s" | get $units | mulf (regexFind "^[0-9.]+" . | float64) }}
{{- if ge $seconds (float64 $.Values.terminationGracePeriodSeconds) }}
{{- printf "config.evaluate.shutdown_grace: %s is not shorter than terminationGracePeriodSeconds: %v, so Kubernetes would kill pods that still finish evaluations; set terminationGracePeriodSeconds to more" . $.Values.terminationGracePeriodSeconds | fail }}
{{- end }}
{{- end }}
{{- $replicas := dict }}
{{- range $stage := list "assemble" "evaluate" "export" }}{{ with index $.Values.stages $stage }}
{{- if .enabled }}{{ $_ := set $replicas (printf "stages.%s.replicas" $stage) .replicas }}{{ end }}
{{- end }}{{ end }}
{{- if and .Values.autoscaling.enabled .Values.stages.evaluate.enabled }}
{{- $replicas = set (omit $replicas "stages.evaluate.replicas") "autoscaling.maxReplicas" .Values.autoscaling.maxReplicas }}
{{- end }}
{{- with dig "log" "kafka" "partitions" 0 $config | int }}{{ $partitions := . }}
{{- range $key, $number := $replicas }}{{ if gt (int $number) $partitions }}
{{- printf "%s: %v is more than config.log.kafka.partitions: %d, and a pod without a partition does nothing; set %d or less" $key $number $partitions $partitions | fail }}
{{- end }}{{ end }}
{{- end }}
{{- end }}

{{/*
Refuses secrets that stand in the configuration itself: all who may read the ConfigMap would have them. Given is a list: a
place in the configuration, and what is there. Servers without a login take `none` or EMPTY as a key.
*/}}
{{- define "evalstream.literals" -}}
{{- $place := index . 0 }}
{{- range $key, $value := index . 1 }}
{{- $here := ternary (printf "%s[%v]" $place $key) (printf "%s.%v" $place $key) (kindIs "int" $key) }}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) }}
{{- include "evalstream.literals" (list $here $value) }}
{{- else if and $value (regexMatch "\\.(api_key|client_secret|password|secret|secret_key|token|tokens\\[[0-9]+\\]|redact(\\..+)?\\.key)$" $here) }}
{{- if not (regexMatch "(?i)\\$\\{env:|^(none|empty)$" (toString $value)) }}
{{- printf "%s: all who may read the ConfigMap could read this secret; put it into a Secret that secretEnv names, and write ${env:NAME}" $here | fail }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The configuration file: what the chart knows, and over it what the values say. Given is a list: the root, and the kind of
workload. Pods of a StatefulSet keep their names, so Kafka may keep their partitions for them while they restart; with
the names of a Deployment's pods, which never come again, it would wait for nobody.
*/}}
{{- define "evalstream.config" -}}
{{- $root := index . 0 }}
{{- include "evalstream.refuse" $root }}
{{- $kafka := ternary (dict "group_instance_id" "${env:POD_NAMESPACE}.${env:POD_NAME}") dict (eq (index . 1) "StatefulSet") }}
{{- $open := dict "host" "0.0.0.0" "insecure" true }}
{{- $known := dict
  "log" (dict "kind" "kafka" "kafka" $kafka)
  "receive" (dict
    "otlp_http" (merge (dict "port" $root.Values.service.otlpPort) $open)
    "otlp_grpc" (merge (dict "port" $root.Values.service.otlpGrpcPort) $open))
  "export" (dict "prometheus" (dict "host" "0.0.0.0" "port" $root.Values.service.metricsPort)) }}
{{- if $root.Values.stages.page.enabled }}{{ $_ := set $known "page" dict }}{{ end }}
{{- toYaml (mergeOverwrite $known (deepCopy $root.Values.config)) }}
{{- end }}

{{/* The ports on which the receive stage listens: none for a receiver that the values set to null. */}}
{{- define "evalstream.otlpPorts" -}}
{{- $receive := (include "evalstream.config" (list . "Deployment") | fromYaml).receive }}
{{- if $receive.otlp_http }}
- {name: otlp, port: {{ .Values.service.otlpPort }}, protocol: http}
{{- end }}
{{- if $receive.otlp_grpc }}
- {name: otlp-grpc, port: {{ .Values.service.otlpGrpcPort }}, protocol: grpc}
{{- end }}
{{- end }}

{{/* The part of the configuration that only a start reads (collector/config/live_part.py); a change of it restarts the pods. */}}
{{- define "evalstream.startConfig" -}}
{{- $config := include "evalstream.config" . | fromYaml }}
{{- $watcher := dig "alerts" "watcher" dict $config }}
{{- toYaml (omit $config "judges" "juries" "evaluators" "monitors" "evaluate" "alerts" "golden" "canary" "cascades" "traffic" "log_level") }}
{{ toYaml $watcher }}
{{- end }}
