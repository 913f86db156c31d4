"""What the operator sets: fleet.yaml and environment variables, read once, frozen, unknown keys refused."""

from dashboard.config.load import FILE_VARIABLE as FILE_VARIABLE
from dashboard.config.load import load_options as load_options
from dashboard.config.load import read_options as read_options
from dashboard.config.model import DEFAULT_FILE as DEFAULT_FILE
from dashboard.config.model import EVERY_POLL as EVERY_POLL
from dashboard.config.model import NO_TRAFFIC as NO_TRAFFIC
from dashboard.config.model import TARGET_SOURCES as TARGET_SOURCES
from dashboard.config.model import TRAFFIC_OFF as TRAFFIC_OFF
from dashboard.config.model import HistoryOptions as HistoryOptions
from dashboard.config.model import Options as Options
from dashboard.config.model import PollOptions as PollOptions
from dashboard.config.model import TrafficOptions as TrafficOptions
from dashboard.config.model import policy_of as policy_of
from dashboard.config.notify import AlertmanagerOptions as AlertmanagerOptions
from dashboard.config.notify import NotifyOptions as NotifyOptions
from dashboard.config.notify import WebhookOptions as WebhookOptions
from dashboard.config.rules import MAX_LABEL_CHARACTERS as MAX_LABEL_CHARACTERS
from dashboard.config.sources import CredentialsOptions as CredentialsOptions
from dashboard.config.sources import DashboardOptions as DashboardOptions
from dashboard.config.sources import DnsSdOptions as DnsSdOptions
from dashboard.config.sources import FileSdOptions as FileSdOptions
from dashboard.config.sources import HttpSdOptions as HttpSdOptions
from dashboard.config.sources import KubernetesOptions as KubernetesOptions
from dashboard.config.sources import PrometheusAuthorization as PrometheusAuthorization
from dashboard.config.sources import PrometheusOptions as PrometheusOptions
from dashboard.config.sources import TargetOptions as TargetOptions
